/**
 * What passes between an engine in a thread of its own (engine-thread.ts) and whoever asks it (engine-worker.ts). Both
 * ends read what comes with these schemas; the record of an answer alone is trusted, because it goes one way only and
 * comes from the same version of the program.
 */
import { z } from 'zod';
import type { ErrorCode } from '../../core/errors.js';
import { describeCause, MistletoeError } from '../../core/errors.js';
import { maxNewTokensLimit } from '../../core/limits.js';
import { tapConventions } from '../../draft/draft-system.js';
import { computeTypes, deviceForm, deviceForms } from '../../runtime/device-choice.js';
import type { Generation } from '../plain.js';
import type { SpeculativeGeneration } from '../speculative.js';
import type { VerificationRule } from '../verification/verification.js';

const count = z.number().int().positive();
const templateText = z.object({
  source: z.string(),
  origin: z.string(),
  addSpecialTokens: z.boolean().optional(),
});

/** What the thread opens. */
export const settingsSchema = z.strictObject({
  target: z.string(),
  /** Name that requests use -> folder, bundled name, or a system without weights such as `ngram`. */
  drafters: z.record(z.string(), z.string()),
  /** What the layer ids of EAGLE-3 heads mean. */
  taps: z.enum(tapConventions).exactOptional(),
  device: z.string().regex(deviceForm, `expected ${deviceForms}`).exactOptional(),
  /** In which products are computed on a GPU. */
  dtype: z.enum(computeTypes).exactOptional(),
  threads: count.exactOptional(),
  concurrency: count.exactOptional(),
  memoryBytes: z.number().positive().exactOptional(),
  cacheFolder: z.string().exactOptional(),
  verifyCache: z.boolean().exactOptional(),
  chat: z.boolean().exactOptional(),
  chatTemplate: z.union([z.string(), templateText]).exactOptional(),
  date: z.string().exactOptional(),
  /** Of tasks that are guarded (budgeted-drafting.ts). */
  guarding: z
    .strictObject({
      slowdown: z.number().positive().exactOptional(),
      floor: z.number().min(0).max(1).exactOptional(),
      ladder: z.array(z.string()).exactOptional(),
    })
    .exactOptional(),
});
export type EngineSettings = z.infer<typeof settingsSchema>;

const message = z.strictObject({
  role: z.enum(['system', 'user', 'assistant']),
  content: z.string(),
  name: z.string().exactOptional(),
});

const rules = ['greedy', 'rejection', 'block', 'typical'] as const satisfies readonly VerificationRule[];

/** What one answer is asked for with. */
export const taskSchema = z.strictObject({
  /** A text, a conversation, or token ids. */
  prompt: z.union([z.string(), z.array(z.number().int().nonnegative()), z.array(message)]),
  /** A longer prompt is refused. */
  maxPromptTokens: count.exactOptional(),
  drafter: z.string().exactOptional(),
  policy: z.string().exactOptional(),
  rule: z.enum(rules).exactOptional(),
  /** Whether other drafters, and plain steps, take over where drafts do not pay. */
  guarded: z.boolean().exactOptional(),
  maxNewTokens: count.max(maxNewTokensLimit).exactOptional(),
  /** Whether a prompt that leaves no room for maxNewTokens is refused; otherwise the answer ends with the context. */
  needsRoom: z.boolean().exactOptional(),
  sampling: z
    .strictObject({
      temperature: z.number(),
      topK: z.number().exactOptional(),
      topP: z.number().exactOptional(),
    })
    .exactOptional(),
  /** Of the first answer; each further one has the next number. */
  seed: z.number().int().exactOptional(),
  topLikelihoods: z.number().int().nonnegative().exactOptional(),
  stopStrings: z.array(z.string()).exactOptional(),
  chat: z.boolean().exactOptional(),
  name: z.string().exactOptional(),
});
export type EngineTask = z.infer<typeof taskSchema>;

const id = z.number().int().nonnegative();

export const requestSchema = z.discriminatedUnion('kind', [
  /** One answer for each id, all of them to the same prompt. */
  z.strictObject({ kind: z.literal('generate'), ids: z.array(id).nonempty(), task: taskSchema }),
  z.strictObject({ kind: z.literal('abort'), id }),
  z.strictObject({ kind: z.literal('load'), id }),
  /** Aborts what runs, and ends the thread when all of it has answered. */
  z.strictObject({ kind: z.literal('close') }),
]);
export type EngineRequest = z.infer<typeof requestSchema>;

const codes = [
  ...(['usage', 'checkpoint', 'shape', 'text'] as const),
  ...(['context', 'drafter', 'incomplete', 'network', 'runtime'] as const),
] satisfies readonly ErrorCode[];

const failure = z.strictObject({
  /** Absent for a fault of the program. */
  code: z.enum(codes).exactOptional(),
  message: z.string(),
  hint: z.string().exactOptional(),
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
  likelihood: likelihood.exactOptional(),
});
export type WorkerTokenEvent = z.infer<typeof tokenEvent>;

const step = z.object({
  ...{ proposed: z.number(), accepted: z.number(), depth: z.number() },
  /** Of a guarded answer, the rung of its ladder. */
  drafter: z.number().exactOptional(),
});

/** What one pass brought: the tokens that became certain with it, and what it drafted, if it did. */
const progress = z.strictObject({ tokens: z.array(tokenEvent), steps: z.array(step) });
export type AnswerProgress = z.infer<typeof progress>;

const load = z.strictObject({ running: z.number(), waiting: z.number(), usedBytes: z.number() });

export const answerSchema = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('ready'),
    target: z.strictObject({ name: z.string(), contextLength: count, vocabularySize: count }),
    /** Where it runs, in words. */
    device: z.string(),
    isChat: z.boolean(),
  }),
  z.strictObject({ kind: z.literal('progress'), id, progress }),
  z.strictObject({ kind: z.literal('load'), id, load }),
  /** Without a request: of opening the models. */
  z.strictObject({ kind: z.literal('notice'), id: id.exactOptional(), text: z.string() }),
  z.strictObject({
    kind: z.literal('done'),
    id,
    generation: z.custom<Generation | SpeculativeGeneration>((value) => typeof value === 'object'),
  }),
  z.strictObject({ kind: z.literal('failed'), id: id.exactOptional(), failure }),
]);
export type EngineAnswer = z.infer<typeof answerSchema>;

/** An error does not keep its class on the way between threads: it goes as a record. */
export function describeFailure(cause: unknown): Failure {
  const message = describeCause(cause);
  if (!(cause instanceof MistletoeError)) return { message };
  const { code, hint } = cause;
  return { code, message, ...(hint === undefined ? {} : { hint }) };
}

export function createFailure({ code, message, hint }: Failure): Error {
  if (code === undefined) return new Error(message);
  return new MistletoeError(code, message, hint === undefined ? {} : { hint });
}
