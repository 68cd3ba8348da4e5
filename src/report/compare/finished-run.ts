/** Reads the result of a finished audit, as far as a comparison needs it. */
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
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
  const value = parseJson(await readResult(folder, path), path);
  const schema = z.object({ schema: z.string() }).safeParse(value).data?.schema;
  if (schema !== resultSchema) {
    throw refuse(
      `${path} has the schema ${schema === undefined ? 'of no audit' : JSON.stringify(schema)}; "${resultSchema}" was expected.`,
      'Compare runs of the same version of Mistletoe, or run the older audit again.',
    );
  }
  const parsed = comparableSchema.safeParse(value);
  if (parsed.success) return { name: folder, result: parsed.data };
  const [issue] = parsed.error.issues;
  throw refuse(
    `${path} cannot be compared: ${issue?.path.join('.') ?? ''}: ${issue?.message ?? 'unreadable'}.`,
    'It was changed, or its run did not end; finish it with mistletoe audit --resume, or run it again.',
  );
}

async function readResult(folder: string, path: string): Promise<Buffer> {
  const [inside, config] = await Promise.all(
    [folder, join(folder, 'config.json')].map((each) => stat(each).catch(() => undefined)),
  );
  if (inside?.isDirectory() !== true) {
    const seen = inside === undefined ? 'does not exist' : 'is not a folder';
    throw refuse(`${folder} ${seen}; the folder of a finished audit was expected.`, nameFolder);
  }
  try {
    return await readBoundedFile(path, fileLimits.auditResult);
  } catch (cause) {
    if (!isMissing(cause)) {
      const hint = 'Put the result itself there, where you may read it.';
      throw refuse(`${path} cannot be read: ${describeCause(cause)}.`, hint, cause);
    }
    throw config === undefined
      ? refuse(`${folder} is not a run of mistletoe audit: it has no result.json.`, nameFolder)
      : refuse(
          `The audit in ${folder} is not finished: it has no result.json.`,
          `Finish it with: mistletoe audit --resume ${quoteWord(folder)}`,
        );
  }
}

const nameFolder = 'Give the folder that `mistletoe audit` named.';

function parseJson(bytes: Buffer, path: string): unknown {
  try {
    return parseJsonText(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch (cause) {
    throw refuse(
      `${path} is not JSON: ${describeCause(cause)}.`,
      'The file was cut or changed; run it again.',
      cause,
    );
  }
}

function refuse(message: string, hint: string, cause?: unknown): MistletoeError {
  return new MistletoeError('usage', message, { hint, cause });
}
