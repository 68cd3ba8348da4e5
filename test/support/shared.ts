import { existsSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';

/** The folder of golden values and prompt sets beside the repository; suites that need it skip where it is absent. */
export const sharedFolder = resolve(import.meta.dirname, '../../../shared');
export const hasShared = existsSync(resolve(sharedFolder, 'golden/reference.json'));
if (!hasShared) console.warn(`Skipped: ${sharedFolder} with golden values and prompts is not there.`);

export const bundledModels = resolve(import.meta.dirname, '../../models/reference');

export function readShared(path: string): unknown {
  return JSON.parse(readFileSync(resolve(sharedFolder, path), 'utf8'));
}

export type DrafterName = 'sps' | 'medusa' | 'hydra' | 'eagle' | 'eagle3';

export interface GoldenGradient {
  readonly loss: number;
  readonly gradient_norm: number;
  readonly row_norms: readonly number[];
  readonly entries: readonly (readonly [number, number, number])[];
  readonly most_negative_per_row: readonly number[];
}

export interface GoldenPrompt {
  readonly kind: string;
  readonly prompt: string;
  readonly ids: readonly number[];
  readonly last_logits: { readonly ids: readonly number[]; readonly logits: readonly number[] };
  readonly last_hidden_first8: readonly number[];
  readonly tap_first4: readonly (readonly number[])[];
  readonly greedy_ids: readonly number[];
  readonly greedy_text: string;
  readonly chain4_accepted_lengths: Readonly<Record<DrafterName, readonly number[]>>;
  readonly dynamic_tree_60_5_10: Readonly<
    Record<
      'eagle' | 'eagle3',
      { readonly accepted_lengths: readonly number[]; readonly same_as_greedy: boolean }
    >
  >;
  readonly gradients: {
    readonly prompt_ids: readonly number[];
    readonly suffix_ids: readonly number[];
    readonly tail_ids: readonly number[];
    readonly clean_continuation: readonly number[];
  } & Readonly<Record<DrafterName | 'preservation', GoldenGradient>>;
}

export function readGoldenPrompts(): readonly GoldenPrompt[] {
  return hasShared ? (readShared('golden/reference.json') as readonly GoldenPrompt[]) : [];
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
