/** `inspect` of a drafter: its description and all recipes that do not fit. */
import { listFirst } from '../../core/number-text.js';
import type { Problem } from '../../checkpoint/open-checkpoint.js';
import { quote, type Checkpoint } from '../../checkpoint/stored-tensor.js';
import { resolveRecipes, type WeightRecipe } from '../../checkpoint/weight-recipe.js';
import { MistletoeError } from '../../core/errors.js';
import type { ModelConfiguration } from '../../model/configuration.js';
import type { UnreadTensors } from '../../model/weights.js';
import {
  decoderRecipes,
  describeUnknownTensors,
  findUnreadTensors,
  requireLayers,
} from '../../model/weights.js';
import type { DescribingContext, DrafterFacts, DraftSystem } from '../draft-system.js';
import { unreadProblems } from './checks.js';
import { flattenConfig, sizeIn } from './draft-configuration.js';

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

/** Throws if config.json names too many layers. */
export function readDecoderTensors(checkpoint: Checkpoint, model: ModelConfiguration) {
  requireLayers(checkpoint, model);
  const recipes = decoderRecipes(model, '');
  const unread = findUnreadTensors(checkpoint.tensors.keys(), recipes, model);
  const refusal = describeUnknownTensors('The checkpoint', unread, model);
  return {
    problems: [
      ...findTensorProblems(checkpoint, recipes),
      ...(refusal === undefined ? [] : [toProblem(refusal)]),
    ],
    notes: unneededNotes(unread),
  };
}

/** Only the first problems get guesses, which are slow. */
const guessedNames = 12;

function findTensorProblems(checkpoint: Checkpoint, recipes: readonly WeightRecipe[]): readonly Problem[] {
  const problems: Problem[] = [];
  for (const recipe of recipes) {
    try {
      resolveRecipes(checkpoint, [recipe], problems.length < guessedNames);
    } catch (failure) {
      problems.push(toProblem(failure));
    }
  }
  return problems;
}

/** One line per reason. */
function unneededNotes({ unneeded }: UnreadTensors): readonly string[] {
  const byReason = new Map<string, string[]>();
  for (const { name, reason } of unneeded) byReason.set(reason, [...(byReason.get(reason) ?? []), name]);
  return [...byReason].map(
    ([reason, names]) => `Not read, because it is not needed: ${listFirst(names, 1, quote)} (${reason}).`,
  );
}

export function toProblem(failure: unknown): Problem {
  if (!(failure instanceof MistletoeError)) throw failure;
  return { problem: failure.message, remedy: failure.hint ?? 'Take the file from its origin again.' };
}

export function readDrafter(
  system: Pick<DraftSystem, 'describe'>,
  checkpoint: Checkpoint,
  context: Omit<DescribingContext, 'refuse'> = {},
) {
  const refused: Problem[] = [];
  const refuse = (fault: MistletoeError): void => {
    refused.push(toProblem(fault));
  };
  const { facts, recipes, unread } = system.describe(checkpoint, { ...context, refuse });
  return {
    facts,
    problems: [
      ...findTensorProblems(checkpoint, recipes),
      ...findDisagreements(facts, checkpoint),
      ...refused,
      ...unreadProblems(unread),
    ],
  };
}
