/** Reads the result of a finished audit, as far as a comparison needs it. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import * as z from '../../core/schema.js';
import { arms, resultSchema } from '../../audit/result.js';
import { isMissing, quoteWord, readBoundedFile } from '../../core/files.js';
import { describeCause, MistletoeError } from '../../core/errors.js';
import { parseJsonText } from '../../core/json-text.js';
import { fileLimits } from '../../core/limits.js';
import { keptClasses } from '../../measure/kept-class.js';

const count = z.number().nonnegative();
const identity = { name: z.string(), parameterCount: count, sha256: z.string() };

const armSchema = z.object({
  arm: z.enum(arms),
  withoutSuffix: z.string().nullable(),
  sameAnswer: z.object({ accepted: count, steps: count }),
  preservation: z.object({ kept: z.enum(keptClasses) }),
});

const promptSchema = z.object({
  promptId: z.string(),
  prompt: z.string(),
  skipped: z.string().nullable(),
  arms: z.array(armSchema).readonly(),
});

const comparableSchema = z.object({
  setup: z.object({
    version: z.string(),
    node: z.string(),
    target: z.object(identity),
    drafters: z
      .array(z.object({ ...identity, id: z.string(), system: z.string(), policy: z.string() }))
      .readonly(),
    preset: z.string(),
    seed: z.number(),
    options: z.record(z.string(), z.union([z.string(), z.number(), z.boolean(), z.null()])),
    command: z.string(),
    promptCount: count,
  }),
  drafters: z.array(z.object({ drafter: z.string(), prompts: z.array(promptSchema).readonly() })).readonly(),
  verdict: z.object({
    level: z.string(),
    headline: z.string(),
    drafters: z.array(z.object({ drafter: z.string(), level: z.string() })).readonly(),
  }),
});

export type ComparableArm = z.infer<typeof armSchema>;
export type ComparablePrompt = z.infer<typeof promptSchema>;
export type ComparableResult = z.infer<typeof comparableSchema>;
export type ComparableDrafter = ComparableResult['drafters'][number];

export interface ComparedRun {
  /** How the user named it: its folder. */
  readonly name: string;
  readonly result: ComparableResult;
}

export async function readFinishedRun(folder: string): Promise<ComparedRun> {
  const path = join(folder, 'result.json');
  const value = await readResult(folder, path);
  const schema = z.object({ schema: z.string() }).safeParse(value).data?.schema;
  if (schema !== resultSchema) {
    throw refuse(
      `${path} has the schema ${schema === undefined ? 'of no audit' : JSON.stringify(schema)}; "${resultSchema}" was expected.`,
      'Compare runs of the same version of Mistletoe, or run the older audit again.',
    );
  }
  const parsed = comparableSchema.safeParse(value);
  if (parsed.success) return { name: folder, result: parsed.data };
  const { place, fault } = z.describeFault(parsed.error);
  throw refuse(
    `${path} cannot be compared: ${place}: ${fault}.`,
    'It was changed, or its run did not end; finish it with mistletoe audit --resume, or run it again.',
  );
}

async function readResult(folder: string, path: string): Promise<unknown> {
  try {
    const bytes = await readBoundedFile(path, fileLimits.auditResult);
    return parseJsonText(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch (cause) {
    if (!isMissing(cause))
      throw refuse(`${path} cannot be read: ${describeCause(cause)}.`, 'Run the audit again.', cause);
    throw existsSync(join(folder, 'config.json'))
      ? refuse(
          `The audit in ${folder} is not finished: it has no result.json.`,
          `Finish it with: mistletoe audit --resume ${quoteWord(folder)}`,
        )
      : refuse(
          `${folder} is not the folder of a finished audit: it has no result.json.`,
          'Give the folder that `mistletoe audit` named.',
        );
  }
}

function refuse(message: string, hint: string, cause?: unknown): MistletoeError {
  return new MistletoeError('usage', message, { hint, cause });
}
