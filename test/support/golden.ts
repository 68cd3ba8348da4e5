/**
 * Values of the bundled models from PyTorch 2.11 and transformers 5.17, in float32 on the float16 weights; the two EAGLE
 * drafters ran in their authors' own code. Ids and accepted lengths agree exactly or something is wrong.
 */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';

export type DrafterName = 'sps' | 'medusa' | 'hydra' | 'eagle' | 'eagle3';

/** Of one objective, with respect to the one-hot matrix of the suffix. [suffix, vocabulary] */
export interface GoldenGradient {
  readonly loss: number;
  readonly gradient_norm: number;
  readonly row_norms: readonly number[];
  /** Row, token and value of the largest. */
  readonly entries: readonly (readonly [number, number, number])[];
  readonly most_negative_per_row: readonly number[];
}

/** The suffix sits between the prompt and the template's tail; the answer without it is forced behind both. */
export type GoldenGradients = {
  readonly prompt_ids: readonly number[];
  readonly suffix_ids: readonly number[];
  readonly tail_ids: readonly number[];
  readonly clean_continuation: readonly number[];
} & Readonly<Record<DrafterName | 'preservation', GoldenGradient>>;

export interface GoldenPrompt {
  readonly kind: string;
  readonly prompt: string;
  readonly ids: readonly number[];
  readonly last_logits: { readonly ids: readonly number[]; readonly logits: readonly number[] };
  readonly last_hidden_first8: readonly number[];
  readonly tap_first4: readonly (readonly number[])[];
  readonly greedy_ids: readonly number[];
  readonly greedy_text: string;
  /** Stops where fewer than five tokens of the greedy text are left: a run's lengths start with these. */
  readonly chain4_accepted_lengths: Readonly<Record<DrafterName, readonly number[]>>;
  readonly dynamic_tree_60_5_10: Readonly<
    Record<
      'eagle' | 'eagle3',
      { readonly accepted_lengths: readonly number[]; readonly same_as_greedy: boolean }
    >
  >;
  /** Absent where the answer is shorter than the 20 tokens that the objectives look at. */
  readonly gradients?: GoldenGradients;
}

const file = resolve(import.meta.dirname, '../golden/reference-2.json');

export function readGoldenPrompts(): readonly GoldenPrompt[] {
  return JSON.parse(readFileSync(file, 'utf8')) as readonly GoldenPrompt[];
}

/** Largest difference relative to the largest expected magnitude. */
export function relativeError(found: ArrayLike<number>, expected: ArrayLike<number>): number {
  let difference = 0;
  let magnitude = 0;
  for (let index = 0; index < expected.length; index++) {
    difference = Math.max(difference, Math.abs(found[index]! - expected[index]!));
    magnitude = Math.max(magnitude, Math.abs(expected[index]!));
  }
  return difference / magnitude;
}
