/** Answers prompts, by plain or speculative decoding. */
import type { SamplingOptions } from '../core/sampling.js';
import type { Drafter } from '../draft/drafter.js';
import { resolvePolicy } from '../draft/tree/policy.js';
import { parseDraftPolicy, type DraftPolicy } from '../draft/tree/policy.js';
import type { CausalModel } from '../model/causal-model.js';
import type { Runtime } from '../runtime/program.js';
import type { ChatMessage } from '../text/template/chat-template.js';
import type { AnswerOptions } from './answer.js';
import { Engine } from './engine.js';
import { AdaptivePolicy } from './policies/adaptive-policy.js';
import { always, type PolicyChooser } from './policies/policy-chooser.js';
import type { Generation, GenerationRequest, SpeculativeGeneration, SpeculativeRequest } from './request.js';
import { Sequence } from './sequence.js';
import { encodePrompt, type PromptEncoding, type Target } from './target.js';
import type { VerificationRule } from './verification/verification.js';

/** One target pass per token: a sequence that proposes nothing. */
export async function decodePlain(model: CausalModel, request: GenerationRequest): Promise<Generation> {
  return decode(model, request, undefined, (sequence) => sequence.generation);
}

export async function decodeSpeculative(
  model: CausalModel,
  drafter: Drafter,
  request: SpeculativeRequest,
): Promise<SpeculativeGeneration> {
  return decode(model, request, drafter, (sequence) => sequence.speculativeGeneration);
}

async function decode<Result>(
  model: CausalModel,
  request: GenerationRequest,
  drafter: Drafter | undefined,
  finish: (sequence: Sequence) => Result,
): Promise<Result> {
  const { engine = new Engine() } = request;
  const sequence = new Sequence(model, request, engine.passes, drafter);
  try {
    await sequence.prepare();
    await engine.decode(sequence);
    return finish(sequence);
  } finally {
    sequence.close();
  }
}

export interface GenerateOptions extends PromptEncoding {
  /** Default 128. */
  readonly maxNewTokens?: number | undefined;
  /** Greedy by default. */
  readonly sampling?: SamplingOptions | undefined;
  /** Default 0. */
  readonly seed?: number | undefined;
  readonly stopStrings?: readonly string[] | undefined;
  readonly onToken?: AnswerOptions['onToken'] | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Shares its passes with the engine's other sequences. */
  readonly engine?: Engine | undefined;
  /** Report likelihoods, with this many of the most likely tokens. */
  readonly topLikelihoods?: number | undefined;
}

/**
 * Answers a prompt by plain decoding.
 * @example
 * const { text } = await generateText(target, 'Write a Python function that reverses a string.', { maxNewTokens: 64 });
 */
export async function generateText(
  target: Target,
  prompt: string | readonly ChatMessage[],
  options: GenerateOptions = {},
): Promise<Generation> {
  return decodePlain(target.model, await requestFor(target, prompt, options));
}

export async function requestFor(
  target: Target,
  prompt: string | readonly ChatMessage[],
  options: GenerateOptions,
): Promise<GenerationRequest> {
  return completeRequest(target, await encodePrompt(target, prompt, options), options);
}

export function completeRequest(
  target: Target,
  promptIds: readonly number[],
  options: GenerateOptions,
): GenerationRequest {
  const { maxNewTokens = 128, sampling = { temperature: 0 }, seed = 0 } = options;
  const { stopStrings, onToken, signal, engine, topLikelihoods } = options;
  return {
    promptIds,
    maxNewTokens,
    sampling,
    seed,
    stopIds: target.stopIds,
    tokenizer: target.tokenizer,
    stopStrings,
    onToken,
    signal,
    engine,
    topLikelihoods,
  };
}

export interface SpeculativeOptions extends GenerateOptions {
  /**
   * `chain:4`, `dynamic:60,5,10` and so on, or a chooser that several prompts share. Default: `defaultDraftPolicy`.
   */
  readonly policy?: string | PolicyChooser | undefined;
  /** Default: `greedy` at temperature 0, else `rejection`. */
  readonly rule?: VerificationRule | undefined;
  /** Called if the drafter fails and the answer continues without it. */
  readonly onNotice?: ((message: string) => void) | undefined;
  /** Called before the step's tokens. */
  readonly onStep?: SpeculativeRequest['onStep'] | undefined;
}

/**
 * Answers a prompt by speculative decoding.
 * @example
 * const drafter = await loadDrafter(bundledDrafterFolder('eagle3'), { target: target.model });
 * const { text, acceptance } = await generateSpeculatively(target, drafter, 'Write a Python function that reverses a string.', { policy: 'chain:4' });
 */
export async function generateSpeculatively(
  target: Target,
  drafter: Drafter,
  prompt: string | readonly ChatMessage[],
  options: SpeculativeOptions = {},
): Promise<SpeculativeGeneration> {
  const { policy, rule, onNotice, onStep, ...rest } = options;
  const chooser =
    typeof policy === 'object' ? policy : choosePolicy(policy, drafter, target.model.runtime, rest);
  const request = await requestFor(target, prompt, rest);
  return decodeSpeculative(target.model, drafter, { ...request, policy: chooser, rule, onNotice, onStep });
}

export function choosePolicy(
  text: string | undefined,
  drafter: Drafter,
  runtime: Pick<Runtime, 'quantization'>,
  { sampling }: Pick<GenerateOptions, 'sampling'>,
): PolicyChooser {
  return createPolicy(
    text === undefined ? defaultDraftPolicy(drafter, sampling, runtime) : parseDraftPolicy(text),
    drafter,
  );
}

/**
 * `auto` depends on the clock. At temperature 0 tokens do not depend on its choices; above it, and with quantized
 * weights, they do, so the default there is a fixed chain: the same seed must give the same text.
 */
export function defaultDraftPolicy(
  { maximumDepth }: Pick<Drafter, 'maximumDepth'>,
  { temperature }: SamplingOptions = { temperature: 0 },
  { quantization }: Pick<Runtime, 'quantization'> = {},
): DraftPolicy {
  return temperature === 0 && quantization === undefined
    ? { kind: 'auto' }
    : { kind: 'chain', length: Math.min(4, maximumDepth) };
}

export function createPolicy(policy: DraftPolicy, drafter: Drafter): PolicyChooser {
  return policy.kind === 'auto' ? new AdaptivePolicy(drafter) : always(resolvePolicy(policy, drafter));
}
