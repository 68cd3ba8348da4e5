import { existsSync } from 'node:fs';
import { findNearNames } from '../checkpoint/stored-tensor.js';
import { MistletoeError } from '../core/errors.js';
import { bundledDrafterFolder, bundledDrafters } from '../core/package-files.js';
import { mtp } from '../draft/mtp/mtp.js';
import { joinSources, splitSource } from '../draft/joined/sources.js';
import { ngram } from '../draft/ngram/ngram.js';
import { findWeightless } from '../draft/systems.js';

/**
 * Resolves a folder, a bundled name, a system without weights such as `ngram:1,4`, or several as in `ngram+eagle3`. Names
 * take precedence; write `./eagle3` for a folder of that name.
 */
export function findDrafter(given: string): string {
  const parts = splitSource(given);
  if (parts.length > 1) return joinSources(parts.map(findDrafter));
  const name = bundledDrafters.find((bundled) => bundled === given);
  if (name !== undefined) return bundledDrafterFolder(name);
  const weightless = findWeightless(given);
  if (weightless !== undefined) return weightless.normalise(given);
  if (/[/\\.]/.test(given) || existsSync(given)) return given;
  if (given === mtp.name) {
    throw new MistletoeError(
      'usage',
      '"mtp" names no folder: an MTP module is in the checkpoint of its target.',
      {
        hint: 'Give the folder or name of the target as --drafter, too, or the folder of a module that you trained.',
      },
    );
  }
  const known = [...bundledDrafters, ngram.name];
  const near = findNearNames(given.toLowerCase(), known);
  const guess = near.length === 0 ? '' : `Did you mean ${near.join(' or ')}? `;
  throw new MistletoeError('usage', `There is no bundled drafter "${given}", and no folder of that name.`, {
    hint: `${guess}Bundled: ${bundledDrafters.join(', ')}. Without weights: ${ngram.form}. A drafter of your own is given by its folder.`,
  });
}
