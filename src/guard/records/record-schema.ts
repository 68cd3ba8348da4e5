/** A line of the record log: a request with its verdict, an alert, or an action. Files of earlier versions stay readable. */
import { z } from 'zod';
import type { ActionEvent, Alert, Verdict, VerdictName, VerdictNumbers } from '../judge/verdict.js';
import { verdictNames } from '../judge/verdict.js';
import type { Observation } from '../observation.js';
import { actionNames } from '../observation.js';

export type LogEntry =
  | { readonly kind: 'request'; readonly record: Observation; readonly verdict: Verdict }
  | { readonly kind: 'alert'; readonly alert: Alert }
  | { readonly kind: 'action'; readonly action: ActionEvent };

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

/** Fields of earlier versions (promptPrint, promptTail) are dropped. */
export const observationSchema: z.ZodType<Observation> = z.object({
  id: z.string(),
  clientRequestId: z.string().exactOptional(),
  traceparent: z.string().exactOptional(),
  engineRequestId: z.string().exactOptional(),
  model: z.string(),
  route: z.string(),
  endedMs: z.number(),
  engine: z.string(),
  tenant: z.string(),
  status: count,
  ending: z.enum(['complete', 'client-left', 'upstream-failed', 'refused']),
  upstream: z.enum(['speculative', 'plain']),
  measure: z.enum(actionNames).exactOptional(),
  isProbe: z.boolean().exactOptional(),
  isStream: z.boolean(),
  promptTokens: z.number().nullable(),
  completionTokens: z.number().nullable(),
  firstByteMs: z.number().nullable(),
  totalMs: z.number(),
  speculation,
  choiceSpeculation: z.array(speculation).max(1000).exactOptional(),
});

const number = z.number().nullable();
const verdictSchema: z.ZodType<Verdict> = z.object({
  name: z.enum(verdictNames),
  numbers: z.object({
    acceptedLength: number,
    steps: number,
    upperBound: number,
    breakEven: number,
    rank: number,
    baseline: number,
  }),
  reason: z.string(),
});

/** A line is a request, another entry of a log, or unusable. */
export type ReadLine =
  | { readonly record: Observation; readonly verdict: Verdict | undefined }
  | { readonly skipped: true }
  | { readonly fault: string };

const logged = z.looseObject({ kind: z.literal('request'), record: z.unknown(), verdict: z.unknown() });
const otherEntry = z.looseObject({ kind: z.enum(['alert', 'alarm', 'action']) });

/** A line of a log, or an observation without one. */
export function readRecordLine(value: unknown): ReadLine {
  if (otherEntry.safeParse(value).success) return { skipped: true };
  const entry = logged.safeParse(value);
  const parsed = observationSchema.safeParse(entry.success ? entry.data.record : value);
  if (parsed.success) {
    const verdict = verdictSchema.safeParse(entry.data?.verdict);
    return { record: parsed.data, verdict: verdict.success ? verdict.data : undefined };
  }
  const [issue] = parsed.error.issues;
  const place = issue === undefined || issue.path.length === 0 ? 'the line' : issue.path.join('.');
  return { fault: `${place}: ${issue?.message ?? 'unusable'}` };
}

const earlierVerdicts: Readonly<Record<string, VerdictName>> = {
  usual: 'normal',
  high: 'normal',
  low: 'low',
  unknown: 'unreadable',
};

const noNumbers: VerdictNumbers = {
  acceptedLength: null,
  steps: null,
  upperBound: null,
  breakEven: null,
  rank: null,
  baseline: null,
};

/** A line of a log, or undefined. The guard wrote it, but a disk may damage it, so its kind is checked. */
export function parseEntry(line: string): LogEntry | undefined {
  try {
    const value = JSON.parse(line) as Partial<Record<string, unknown>> | null;
    if (typeof value !== 'object' || value === null) return undefined;
    const { kind, verdict } = value;
    const content = value[kind === 'request' ? 'record' : String(kind)];
    if (typeof content !== 'object' || content === null) return undefined;
    if (kind === 'alarm') return { kind: 'alert', alert: fromAlarm(content as Record<string, unknown>) };
    if (kind === 'request' && typeof verdict === 'string') {
      const name = earlierVerdicts[verdict] ?? 'unreadable';
      const reason = `An earlier version called this request ${verdict}.`;
      return { kind, record: content as Observation, verdict: { name, numbers: noNumbers, reason } };
    }
    const isKnown = kind === 'request' || kind === 'alert' || kind === 'action';
    return isKnown ? (value as LogEntry) : undefined;
  } catch {
    return undefined;
  }
}

/** Alarms of earlier versions, which were about single requests too. */
function fromAlarm(alarm: Readonly<Record<string, unknown>>): Alert {
  const text = (name: string): string => (typeof alarm[name] === 'string' ? alarm[name] : '');
  return {
    id: text('id'),
    atMs: typeof alarm.atMs === 'number' ? alarm.atMs : 0,
    model: text('model'),
    route: text('route'),
    tenant: typeof alarm.tenant === 'string' ? alarm.tenant : null,
    requestId: text('requestId'),
    cause: alarm.cause === 'drafter-down' ? 'drafter-down' : alarm.cause === 'collapse' ? 'collapsed' : 'low',
    count: 0,
    requests: 0,
    probability: 0,
    threshold: 0,
    text: text('text'),
  };
}
