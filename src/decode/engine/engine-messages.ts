/**
 * Messages between the engine's thread (engine-thread.ts) and its callers (engine-worker.ts). Both ends parse them
 * with these schemas, except for generations, which come from the same version of the program.
 */
import { z } from 'zod';
import type { ErrorCode } from '../../core/errors.js';
import { describeCause, MistletoeError } from '../../core/errors.js';
import { maxNewTokensLimit } from '../../core/limits.js';
import { tapConventions } from '../../draft/draft-system.js';
import { computeTypes, deviceForm, deviceForms, quantizedTypes } from '../../runtime/device-choice.js';
import type { Generation } from '../plain.js';
import type { SpeculativeGeneration } from '../speculative.js';
import type { VerificationRule } from '../verification/verification.js';

const count = z.number().int().positive();
const templateText = z.object({
  source: z.string(),
  origin: z.string(),
  addSpecialTokens: z.boolean().optional(),
});

export const settingsSchema = z.strictObject({
  target: z.string(),
  /** Name in requests -> folder, bundled name, or a system without weights such as `ngram`. */
  drafters: z.record(z.string(), z.string()),
  taps: z.enum(tapConventions).optional(),
  device: z.string().regex(deviceForm, `expected ${deviceForms}`).optional(),
  dtype: z.enum([...computeTypes, ...quantizedTypes]).optional(),
  threads: count.optional(),
  concurrency: count.optional(),
  memoryBytes: z.number().positive().optional(),
  cacheFolder: z.string().optional(),
  verifyCache: z.boolean().optional(),
  chat: z.boolean().optional(),
  chatTemplate: z.union([z.string(), templateText]).optional(),
  date: z.string().optional(),
  /** For guarded tasks (budgeted-drafting.ts). */
  guarding: z
    .strictObject({
      slowdown: z.number().positive().optional(),
      floor: z.number().min(0).max(1).optional(),
      ladder: z.array(z.string()).optional(),
    })
    .optional(),
});
export type EngineSettings = z.infer<typeof settingsSchema>;

const message = z.strictObject({
  role: z.enum(['system', 'user', 'assistant']),
  content: z.string(),
  name: z.string().optional(),
});

const rules = ['greedy', 'rejection', 'block', 'typical'] as const satisfies readonly VerificationRule[];

export const taskSchema = z.strictObject({
  prompt: z.union([z.string(), z.array(z.number().int().nonnegative()), z.array(message)]),
  maxPromptTokens: count.optional(),
  drafter: z.string().optional(),
  policy: z.string().optional(),
  rule: z.enum(rules).optional(),
  /** Whether to switch to other drafters or plain steps when drafts do not pay. */
  guarded: z.boolean().optional(),
  maxNewTokens: count.max(maxNewTokensLimit).optional(),
  /**
   * Whether to refuse a prompt that leaves too little context for maxNewTokens; otherwise the answer ends with the
   * context.
   */
  needsRoom: z.boolean().optional(),
  sampling: z
    .strictObject({
      temperature: z.number(),
      topK: z.number().optional(),
      topP: z.number().optional(),
    })
    .optional(),
  /** Each further answer to the prompt uses the next number. */
  seed: z.number().int().optional(),
  topLikelihoods: z.number().int().nonnegative().optional(),
  stopStrings: z.array(z.string()).optional(),
  chat: z.boolean().optional(),
  name: z.string().optional(),
});
export type EngineTask = z.infer<typeof taskSchema>;

const id = z.number().int().nonnegative();

export const requestSchema = z.discriminatedUnion('kind', [
  /** One answer per id, all to the same prompt. */
  z.strictObject({ kind: z.literal('generate'), ids: z.array(id).nonempty(), task: taskSchema }),
  z.strictObject({ kind: z.literal('abort'), id }),
  z.strictObject({ kind: z.literal('load'), id }),
  /** Aborts everything and ends the thread once all requests have answered. */
  z.strictObject({ kind: z.literal('close') }),
]);
export type EngineRequest = z.infer<typeof requestSchema>;

const codes = [
  ...(['usage', 'checkpoint', 'shape', 'text'] as const),
  ...(['context', 'drafter', 'incomplete', 'network', 'runtime'] as const),
] satisfies readonly ErrorCode[];

const failure = z.strictObject({
  /** Absent for bugs. */
  code: z.enum(codes).optional(),
  message: z.string(),
  hint: z.string().optional(),
});
export type Failure = z.infer<typeof failure>;

const spelledToken = {
  id: z.number().int(),
  text: z.string(),
  bytes: z.array(z.number()).nullable(),
  logprob: z.number(),
};
const likelihood = z.strictObject({ ...spelledToken, top: z.array(z.strictObject(spelledToken)) });
export type SpelledLikelihood = z.infer<typeof likelihood>;

const tokenEvent = z.strictObject({
  id: z.number().int(),
  origin: z.enum(['target', 'accepted', 'bonus']),
  text: z.string(),
  likelihood: likelihood.optional(),
});
export type WorkerTokenEvent = z.infer<typeof tokenEvent>;

const step = z.object({
  proposed: z.number(),
  accepted: z.number(),
  depth: z.number(),
  /** The rung of a guarded answer's ladder. */
  drafter: z.number().optional(),
});

/** The tokens and steps of one pass. */
const progress = z.strictObject({ tokens: z.array(tokenEvent), steps: z.array(step) });
export type AnswerProgress = z.infer<typeof progress>;

const load = z.strictObject({ running: z.number(), waiting: z.number(), usedBytes: z.number() });

export const answerSchema = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('ready'),
    target: z.strictObject({ name: z.string(), contextLength: count, vocabularySize: count }),
    device: z.string(),
    isChat: z.boolean(),
  }),
  z.strictObject({ kind: z.literal('progress'), id, progress }),
  z.strictObject({ kind: z.literal('load'), id, load }),
  /** Without an id: while opening the models. */
  z.strictObject({ kind: z.literal('notice'), id: id.optional(), text: z.string() }),
  z.strictObject({
    kind: z.literal('done'),
    id,
    generation: z.custom<Generation | SpeculativeGeneration>((value) => typeof value === 'object'),
  }),
  z.strictObject({ kind: z.literal('failed'), id: id.optional(), failure }),
]);
export type EngineAnswer = z.infer<typeof answerSchema>;

/** Errors lose their class between threads, so they travel as records. */
export function describeFailure(cause: unknown): Failure {
  const message = describeCause(cause);
  if (!(cause instanceof MistletoeError)) return { message };
  const { code, hint } = cause;
  return { code, message, hint };
}

export function createFailure({ code, message, hint }: Failure): Error {
  if (code === undefined) return new Error(message);
  return new MistletoeError(code, message, { hint });
}
