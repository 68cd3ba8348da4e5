/** What a drafter's tensors say about it and its target. */
import type { Problem } from '../../checkpoint/open-checkpoint.js';
import type { Checkpoint } from '../../checkpoint/stored-tensor.js';
import { flattenConfig } from './draft-configuration.js';

export interface DrafterFacts {
  /** Fixed draft length; absent for autoregressive drafters. */
  readonly heads?: number | undefined;
  readonly hiddenSize?: number | undefined;
  readonly draftVocabularySize?: number | undefined;
  readonly rotary?: { readonly base: number; readonly origin: string } | undefined;
  /** Optional parts and settings. */
  readonly traits?: readonly string[] | undefined;
  readonly expects: ExpectedTarget;
}

export interface ExpectedTarget {
  readonly hiddenSize?: number | undefined;
  readonly vocabularySize?: number | undefined;
  /** Number of tapped residual streams. */
  readonly taps?: number | undefined;
  readonly tapRule?: string | undefined;
}

/** Differences between config.json and tensors: a drafter saved with another configuration. */
export function findDisagreements(
  { hiddenSize, draftVocabularySize, expects }: DrafterFacts,
  { config, tensors }: Pick<Checkpoint, 'config' | 'tensors'>,
): readonly Problem[] {
  const flat = flattenConfig(config);
  const pairs: readonly (readonly [string, number | undefined])[] = [
    ['hidden_size', hiddenSize],
    ['vocab_size', expects.vocabularySize],
    ['draft_vocab_size', draftVocabularySize],
  ];
  const problems = pairs.flatMap(([key, seen]): Problem[] => {
    const stated = sizeIn(flat, key);
    if (stated === undefined || seen === undefined || stated === seen) return [];
    return [
      {
        problem: `config.json says ${key} ${stated}, but the tensors have ${seen}.`,
        remedy: 'Take config.json and the weights from the same drafter.',
      },
    ];
  });
  const isSmaller = draftVocabularySize !== undefined && draftVocabularySize < (expects.vocabularySize ?? 0);
  if (isSmaller && !tensors.has('d2t') && !tensors.has('model.d2t')) {
    problems.push({
      problem: `The drafter proposes ${draftVocabularySize} of the target's ${expects.vocabularySize ?? 0} tokens, but has no d2t that says which.`,
      remedy: 'Use an export that keeps the buffers d2t and t2d.',
    });
  }
  return problems;
}

export function sizeIn(config: Readonly<Record<string, unknown>>, key: string): number | undefined {
  const value = config[key];
  return typeof value === 'number' && Number.isSafeInteger(value) && value > 0 ? value : undefined;
}
