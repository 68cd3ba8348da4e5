/** What `inspect` says of a drafter: its description, and every recipe of it that its tensors do not fit. */
import type { Problem } from '../checkpoint/open-checkpoint.js';
import type { Checkpoint } from '../checkpoint/stored-tensor.js';
import type { WeightRecipe } from '../checkpoint/weight-recipe.js';
import { resolveRecipes } from '../checkpoint/weight-recipe.js';
import type { MistletoeError } from '../core/errors.js';
import { toProblem } from './decoder-tensors.js';
import type { ReadingOptions, WeightedSystem } from './draft-system.js';
import type { DrafterFacts } from './drafter-facts.js';
import { findDisagreements } from './drafter-facts.js';
import { unreadProblems } from './unread-tensors.js';

export interface DrafterReading {
  readonly facts: DrafterFacts;
  readonly problems: readonly Problem[];
}

export function readDrafter(
  system: Pick<WeightedSystem, 'describe'>,
  checkpoint: Checkpoint,
  options: ReadingOptions = {},
): DrafterReading {
  const refused: Problem[] = [];
  const note = (fault: MistletoeError): void => {
    refused.push(toProblem(fault));
  };
  const { facts, recipes, unread } = system.describe(checkpoint, note, options);
  return {
    facts,
    problems: [
      ...recipes.flatMap((recipe) => problemsOf(recipe, checkpoint)),
      ...findDisagreements(facts, checkpoint),
      ...refused,
      ...unreadProblems(unread),
    ],
  };
}

function problemsOf(recipe: WeightRecipe, checkpoint: Checkpoint): readonly Problem[] {
  const missing = recipe.parts.filter(({ tensor }) => !checkpoint.tensors.has(tensor));
  if (missing.length > 0) {
    return missing.map(({ tensor }) => ({
      problem: `The drafter has no tensor ${tensor}.`,
      remedy: 'Download the drafter again, or export it with all of its layers.',
    }));
  }
  try {
    resolveRecipes(checkpoint, [recipe]);
    return [];
  } catch (failure) {
    return [toProblem(failure)];
  }
}
