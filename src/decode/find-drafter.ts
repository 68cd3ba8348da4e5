import { existsSync } from 'node:fs';
import { findNearNames } from '../checkpoint/stored-tensor.js';
import { MistletoeError } from '../core/errors.js';
import { findWeightless, systems, weightlessForms } from '../draft/systems.js';
import { bundledDrafterFolder, bundledDrafters } from './bundled-models.js';

/**
 * Resolves a folder, a bundled name, or a system without weights such as `ngram:1,4`. Names take precedence; write
 * `./eagle3` for a folder of that name.
 */
export function findDrafter(given: string): string {
  const name = bundledDrafters.find((bundled) => bundled === given);
  if (name !== undefined) return bundledDrafterFolder(name);
  const weightless = findWeightless(given);
  if (weightless !== undefined) return weightless.normalise(given);
  if (/[/\\.]/.test(given) || existsSync(given)) return given;
  const known = [...bundledDrafters, ...systems.map(({ name }) => name).filter(findWeightless)];
  const near = findNearNames(given.toLowerCase(), known);
  const guess = near.length === 0 ? '' : `Did you mean ${near.join(' or ')}? `;
  throw new MistletoeError('usage', `There is no bundled drafter "${given}", and no folder of that name.`, {
    hint: `${guess}Bundled: ${bundledDrafters.join(', ')}. Without weights: ${weightlessForms.join(', ')}. A drafter of your own is given by its folder.`,
  });
}
