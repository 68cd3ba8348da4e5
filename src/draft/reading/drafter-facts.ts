/** What the tensors of a drafter say about it and about the target it was made for. */
import type { Problem } from '../../checkpoint/open-checkpoint.js';
import type { Checkpoint } from '../../checkpoint/stored-tensor.js';
import { flattenConfig } from './draft-configuration.js';

export interface DrafterFacts {
  /** Tokens it can draft ahead where the number is built in; absent for one that feeds on its own output. */
  readonly heads?: number | undefined;
  readonly hiddenSize?: number | undefined;
  /** Tokens it can propose. */
  readonly draftVocabularySize?: number | undefined;
  /** Of the layer that EAGLE heads have. */
  readonly rotary?: { readonly base: number; readonly origin: string } | undefined;
  /** What it brings beyond the tensors that all of its kind have, and what its config asks to be done. */
  readonly traits?: readonly string[] | undefined;
  readonly expects: ExpectedTarget;
}

export interface ExpectedTarget {
  readonly hiddenSize?: number | undefined;
  readonly vocabularySize?: number | undefined;
  /** Residual streams of the target that it reads. */
  readonly taps?: number | undefined;
  /** Which ones, in words. */
  readonly tapRule?: string | undefined;
}

/** config.json against the tensors: a drafter saved with another one's configuration. */
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

/** A size that config.json states, if it does. */
export function sizeIn(config: Readonly<Record<string, unknown>>, key: string): number | undefined {
  const value = config[key];
  return typeof value === 'number' && Number.isSafeInteger(value) && value > 0 ? value : undefined;
}
