import type { SamplingOptions } from '../core/sampling.js';
import type { Drafter } from '../draft/drafter.js';
import { resolvePolicy } from '../draft/tree/grow-tree.js';
import { parseDraftPolicy, type DraftPolicy } from '../draft/tree/policy.js';
import type { Runtime } from '../runtime/program.js';
import type { ChatMessage } from '../text/template/chat-template.js';
import { AdaptivePolicy } from './policies/adaptive-policy.js';
import type { Generation } from './plain.js';
import { always, type PolicyChooser } from './policies/policy-chooser.js';
import { decodeSpeculative, type SpeculativeGeneration } from './speculative.js';
import { requestFor, type GenerateOptions, type Target } from './target.js';
import type { VerificationRule } from './verification/verification.js';

export interface SpeculativeOptions extends GenerateOptions {
  /**
   * `chain:4`, `dynamic:60,5,10` and so on, or a chooser that several prompts share. Default: `defaultDraftPolicy`.
   */
  readonly policy?: string | PolicyChooser | undefined;
  /** Default: `greedy` at temperature 0, else `rejection`. */
  readonly rule?: VerificationRule | undefined;
  /** Called if the drafter fails and the answer continues without it. */
  readonly onNotice?: ((message: string) => void) | undefined;
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
  const { policy, rule, onNotice, ...rest } = options;
  const chooser =
    typeof policy === 'object' ? policy : choosePolicy(policy, drafter, target.model.runtime, rest);
  const request = await requestFor(target, prompt, rest);
  return decodeSpeculative(target.model, drafter, { ...request, policy: chooser, rule, onNotice });
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

export function isSpeculative(generation: Generation): generation is SpeculativeGeneration {
  return 'acceptance' in generation;
}
