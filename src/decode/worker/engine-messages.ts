/**
 * Messages between the engine's thread (engine-thread.ts) and its callers (engine-worker.ts). Settings and tasks come
 * from users and are parsed by the caller's side; both sides are the same version of the program.
 */
import * as z from '../../core/schema.js';
import { describeCause, MistletoeError, type ErrorCode } from '../../core/errors.js';
import { maxNewTokensLimit } from '../../core/limits.js';
import { tapConventions } from '../../draft/draft-system.js';
import { computeTypes, deviceForm, deviceForms } from '../../runtime/device-choice.js';
import { quantizedTypes } from '../../runtime/weights.js';
import { spellToken, type TokenSpelling } from '../../text/text-stream.js';
import type { Tokenizer } from '../../text/tokenizer/tokenizer.js';
import type { StepRecord } from '../acceptance.js';
import type { TokenEvent } from '../answer.js';
import type { Generation } from '../request.js';
import type { SpeculativeGeneration } from '../request.js';
import type { EngineLoad } from '../engine.js';
import type { VerificationRule } from '../verification/verification.js';

const count = z.number().int().positive();
const templateText = z.object({
  source: z.string(),
  origin: z.string(),
  addSpecialTokens: z.boolean().optional(),
});

export const settingsSchema = z.strictObject({
  target: z.string(),
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
  maxNewTokens: count.max(maxNewTokensLimit).optional(),
  /**
   * Whether to refuse a prompt that leaves too little context for maxNewTokens; otherwise the answer ends with the
   * context.
   */
  needsRoom: z.boolean().optional(),
  sampling: z
    .strictObject({ temperature: z.number(), topK: z.number().optional(), topP: z.number().optional() })
    .optional(),
  /** Each further answer to the prompt uses the next number. */
  seed: z.number().int().optional(),
  topLikelihoods: z.number().int().nonnegative().optional(),
  stopStrings: z.array(z.string()).optional(),
  chat: z.boolean().optional(),
  name: z.string().optional(),
});
export type EngineTask = z.infer<typeof taskSchema>;

export type EngineRequest =
  /** One answer per id, all to the same prompt. */
  | { readonly kind: 'generate'; readonly ids: readonly number[]; readonly task: EngineTask }
  | { readonly kind: 'abort' | 'load'; readonly id: number }
  /** Aborts everything and ends the thread once all requests have answered. */
  | { readonly kind: 'close' };

interface SpelledToken extends TokenSpelling {
  readonly id: number;
  readonly logprob: number;
}

export interface SpelledLikelihood extends SpelledToken {
  readonly top: readonly SpelledToken[];
}

export interface WorkerTokenEvent extends Omit<TokenEvent, 'likelihood'> {
  readonly likelihood?: SpelledLikelihood | undefined;
}

/** The tokens and steps of one pass. */
export interface AnswerProgress {
  readonly tokens: readonly WorkerTokenEvent[];
  readonly steps: readonly StepRecord[];
}

/**
 * Combines what one pass brings to an answer into one message. Tokens of a pass arrive without an await between them,
 * so a microtask marks the end of the pass.
 */
export class ProgressReport {
  private pending: { readonly tokens: WorkerTokenEvent[]; readonly steps: StepRecord[] } | undefined;

  constructor(
    private readonly send: (progress: AnswerProgress) => void,
    private readonly tokenizer: Tokenizer,
  ) {}

  readonly addToken = ({ likelihood, ...event }: TokenEvent): void => {
    const spell = (id: number, logprob: number) => ({ id, ...spellToken(this.tokenizer, id), logprob });
    this.gather().tokens.push({
      ...event,
      likelihood: likelihood && {
        ...spell(event.id, likelihood.logprob),
        top: likelihood.top.map(({ id, logprob }) => spell(id, logprob)),
      },
    });
  };

  readonly addStep = ({ proposed, accepted, depth }: StepRecord): void => {
    this.gather().steps.push({ proposed, accepted, depth });
  };

  readonly flush = (): void => {
    if (this.pending !== undefined) this.send(this.pending);
    this.pending = undefined;
  };

  private gather() {
    if (this.pending === undefined) queueMicrotask(this.flush);
    return (this.pending ??= { tokens: [], steps: [] });
  }
}

export type EngineAnswer =
  | {
      readonly kind: 'ready';
      readonly target: {
        readonly name: string;
        readonly contextLength: number;
        readonly vocabularySize: number;
      };
      readonly device: string;
      readonly isChat: boolean;
    }
  | { readonly kind: 'progress'; readonly id: number; readonly progress: AnswerProgress }
  | { readonly kind: 'load'; readonly id: number; readonly load: EngineLoad }
  /** Without an id: while opening the models. */
  | { readonly kind: 'notice'; readonly id?: number; readonly text: string }
  | { readonly kind: 'done'; readonly id: number; readonly generation: Generation | SpeculativeGeneration }
  | { readonly kind: 'failed'; readonly id?: number; readonly failure: Failure };

export interface Failure {
  /** Absent for bugs. */
  readonly code?: ErrorCode | undefined;
  readonly message: string;
  readonly hint?: string | undefined;
}

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
