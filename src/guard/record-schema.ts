/** A record as it is read back from a file: by the guard's own log, or bare, one a line. */
import { z } from 'zod';
import type { RequestRecord } from './request-record.js';
import { engineNames } from './request-record.js';

const count = z.number().int().nonnegative();
const counts = z.array(count).max(1_000_000).nullable();

const speculation = z
  .object({
    evidence: z.enum(['reported', 'derived', 'estimated']),
    steps: z.number().nonnegative(),
    accepted: z.number().nonnegative(),
    proposed: z.number().nonnegative().nullable(),
    histogram: counts,
    perStepAccepted: counts,
    perStepProposed: counts,
    draftLength: count.nullable(),
    isTree: z.boolean(),
  })
  .nullable();

export const requestRecordSchema: z.ZodType<RequestRecord> = z.object({
  id: z.string(),
  model: z.string(),
  route: z.string(),
  endedMs: z.number(),
  engine: z.enum(engineNames),
  tenant: z.string(),
  status: count,
  ending: z.enum(['complete', 'client-left', 'upstream-failed', 'refused']),
  upstream: z.enum(['speculative', 'plain']),
  isStream: z.boolean(),
  promptTokens: z.number().nullable(),
  completionTokens: z.number().nullable(),
  firstByteMs: z.number().nullable(),
  totalMs: z.number(),
  speculation,
  choiceSpeculation: z.array(speculation).max(1000).exactOptional(),
  promptPrint: z.array(z.number()).nullable(),
  promptTail: z.object({ tokens: count, surprisal: z.number().nonnegative() }).exactOptional(),
});

/** What a line is: a record, another entry of a log, or nothing that can be read. */
export type ReadLine =
  { readonly record: RequestRecord } | { readonly skipped: true } | { readonly fault: string };

const logged = z.looseObject({ kind: z.literal('request'), record: z.unknown() });
const otherEntry = z.looseObject({ kind: z.enum(['alarm', 'action']) });

export function readRecordLine(value: unknown): ReadLine {
  if (otherEntry.safeParse(value).success) return { skipped: true };
  const entry = logged.safeParse(value);
  const parsed = requestRecordSchema.safeParse(entry.success ? entry.data.record : value);
  if (parsed.success) return { record: parsed.data };
  const [issue] = parsed.error.issues;
  const place = issue === undefined || issue.path.length === 0 ? 'the line' : issue.path.join('.');
  return { fault: `${place}: ${issue?.message ?? 'unusable'}` };
}
