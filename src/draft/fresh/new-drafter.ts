/**
 * Creates a drafter in its system's published layout, initialized as its authors do. Heads start with a copy of the
 * target's output; the rest is random, or 0 where that makes a block the identity.
 */
import { MistletoeError } from '../../core/errors.js';
import { findTrainable, trainableSystems } from '../systems.js';
import { drafterSizes, type DrafterShape, type DraftSystem, type FreshDrafter } from '../draft-system.js';
import { writeCheckpoint } from './fresh-tensors.js';
import { openNewTarget } from './new-target.js';

export interface NewDrafter extends FreshDrafter {
  readonly system: string;
}

export interface NewDrafterRequest {
  readonly target: string;
  readonly drafter: NewDrafter;
  /** A drafter at this path is replaced; anything else is refused. */
  readonly folder: string;
  readonly seed: number | string;
}

export async function createDrafterFolder({
  target: targetFolder,
  drafter: { system, draftTokens, ...shape },
  folder,
  seed,
}: NewDrafterRequest): Promise<void> {
  const { training } = chooseTrainable(system, shape);
  const target = await openNewTarget(targetFolder, seed);
  training.checkTarget?.(target, shape);
  await writeCheckpoint(folder, training.create(target, { ...shape, draftTokens }));
}

/** The system of this name; refuses sizes that it does not have. */
export function chooseTrainable(name: string | undefined, shape: DrafterShape = {}): DraftSystem {
  const system = findTrainable(name);
  if (system === undefined) {
    throw new MistletoeError(
      'usage',
      name === undefined
        ? 'There is nothing to train: neither a system nor a drafter to go on from was named.'
        : `No drafter of the system "${name}" can be trained.`,
      { hint: `Choose one of ${trainableSystems.join(', ')}.` },
    );
  }
  const { sizes } = system.training;
  for (const size of Object.keys(shape) as (keyof DrafterShape)[]) {
    if (!sizes.includes(size)) {
      const taken = sizes.length === 0 ? 'it takes no sizes' : `it takes ${sizes.join(', ')}`;
      throw new MistletoeError('usage', `A drafter of ${name} has no size "${size}": ${taken}.`, {
        hint: 'Leave it out, or choose another system.',
      });
    }
    const { type } = drafterSizes[size];
    if (type.check(shape[size]) !== undefined) continue;
    throw new MistletoeError(
      'usage',
      `A drafter of ${name} cannot have ${shape[size]} for ${size}; ${type.expected} was expected.`,
    );
  }
  system.training.checkShape?.(shape);
  return system;
}
