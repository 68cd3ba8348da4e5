/**
 * Creates a drafter in its system's published layout, initialized as its authors do. Heads start with a copy of the
 * target's output; the rest is random, or 0 where that makes a block the identity.
 */
import { MistletoeError } from '../../core/errors.js';
import { deepestDraft } from '../../core/limits.js';
import { writeCheckpoint, type NewCheckpoint } from './new-checkpoint.js';
import { chooseDraftModel, createDraftModel, createShortenedTarget } from '../draft-model/new-draft-model.js';
import { addMaskToken, chooseMaskToken } from '../pard/new-pard.js';
import { createEagle, createEagle3 } from '../eagle/new-eagle.js';
import { createHydra } from '../hydra/hydra-layout.js';
import { createMedusa } from '../medusa/medusa-layout.js';
import { openNewTarget, type NewTarget, type WantedLayers } from './new-target.js';

export type NewDrafter =
  | ({ readonly system: 'speculative-sampling' } & WantedLayers)
  | { readonly system: 'speculative-sampling'; readonly targetLayers: number }
  | ({ readonly system: 'pard' } & WantedLayers)
  | { readonly system: 'medusa'; readonly heads?: number | undefined; readonly layers?: number | undefined }
  | {
      readonly system: 'hydra';
      readonly heads?: number | undefined;
      readonly layers?: number | undefined;
      readonly hasPrefix?: boolean | undefined;
    }
  | { readonly system: 'eagle' }
  | {
      readonly system: 'eagle3' | 'p-eagle';
      /** Ascending; by default the target's whole vocabulary. */
      readonly draftTokens?: Int32Array | undefined;
      readonly layers?: number | undefined;
    };

export type TrainableSystem = NewDrafter['system'];

export const trainableSystems = [
  ...(['speculative-sampling', 'pard', 'medusa', 'hydra', 'eagle', 'eagle3', 'p-eagle'] as const),
] satisfies readonly TrainableSystem[];

export interface NewDrafterRequest {
  readonly target: string;
  readonly drafter: NewDrafter;
  /** A drafter at this path is replaced; anything else is refused. */
  readonly folder: string;
  readonly seed: number | string;
}

export async function createDrafterFolder({
  target: targetFolder,
  drafter,
  folder,
  seed,
}: NewDrafterRequest): Promise<void> {
  const target = await openNewTarget(targetFolder);
  await writeCheckpoint(folder, describeNew(target, drafter, seed));
}

function describeNew(target: NewTarget, drafter: NewDrafter, seed: number | string): NewCheckpoint {
  switch (drafter.system) {
    case 'speculative-sampling':
    case 'pard': {
      if ('targetLayers' in drafter) {
        requireCount(drafter.system, 'targetLayers', drafter.targetLayers, 2 ** 20);
        return createShortenedTarget(target, drafter.targetLayers);
      }
      const { system, ...wanted } = drafter;
      const choice = chooseDraftModel(target, wanted);
      for (const [what, value] of Object.entries(choice) as [string, number][])
        requireCount(system, what, value, 2 ** 20);
      const created = createDraftModel(target, choice, seed);
      return system === 'pard' ? addMaskToken(created) : created;
    }
    case 'medusa': {
      const { heads = 4, layers = 1 } = drafter;
      requireHeads(drafter.system, heads, layers);
      return createMedusa(target, { heads, layers }, seed);
    }
    case 'hydra': {
      const { hasPrefix = false, heads = 4, layers = hasPrefix ? 4 : 1 } = drafter;
      requireHeads(drafter.system, heads, layers);
      return createHydra(target, { heads, layers, hasPrefix }, seed);
    }
    case 'eagle':
      return createEagle(target, seed);
    case 'eagle3':
    case 'p-eagle': {
      const { system, draftTokens, layers = 1 } = drafter;
      requireTokens(draftTokens, target.configuration.vocabularySize);
      requireCount(system, 'layers', layers, 64);
      const maskToken = system === 'p-eagle' ? chooseMaskToken(target.config) : undefined;
      return createEagle3(target, { draftTokens, layers, maskToken }, seed);
    }
  }
}

function requireHeads(system: string, heads: number, layers: number): void {
  requireCount(system, 'heads', heads, deepestDraft);
  requireCount(system, 'layers', layers, deepestDraft);
}

function requireCount(system: string, what: string, value: number, most: number): void {
  if (Number.isInteger(value) && value >= 1 && value <= most) return;
  throw new MistletoeError(
    'usage',
    `A drafter of ${system} cannot have ${value} for ${what}; a whole number from 1 to ${most} was expected.`,
  );
}

function requireTokens(tokens: Int32Array | undefined, vocabularySize: number): void {
  if (tokens === undefined) return;
  const wrong = tokens.findIndex(
    (token, place) => token >= vocabularySize || token <= (place === 0 ? -1 : tokens[place - 1]!),
  );
  if (wrong < 0 && tokens.length > 0) return;
  const found = tokens.length === 0 ? 'none' : `${tokens[wrong]!} at place ${wrong}`;
  throw new MistletoeError(
    'usage',
    `The draft vocabulary has ${found}; ascending tokens below ${vocabularySize} were expected.`,
  );
}
