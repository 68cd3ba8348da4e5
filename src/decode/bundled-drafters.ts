/** The drafters that come with the package, by name; they belong to the bundled target. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { findNearNames } from '../checkpoint/near-names.js';
import { MistletoeError } from '../core/errors.js';
import { packageRoot } from './bundled-models.js';

export const bundledDrafters = ['sps', 'medusa', 'hydra', 'eagle', 'eagle3'] as const;
export type BundledDrafter = (typeof bundledDrafters)[number];

export function bundledDrafterFolder(name: BundledDrafter): string {
  return join(packageRoot, 'models/reference', name);
}

/**
 * The folder of a drafter, given by its path or by a bundled name. A bundled name always means the bundled drafter,
 * wherever the command runs; a folder of the same name is written `./eagle3`.
 */
export function findDrafterFolder(drafter: string): string {
  const name = bundledDrafters.find((bundled) => bundled === drafter);
  if (name !== undefined) return bundledDrafterFolder(name);
  if (/[/\\.]/.test(drafter) || existsSync(drafter)) return drafter;
  const near = findNearNames(drafter.toLowerCase(), bundledDrafters);
  const guess = near.length === 0 ? '' : `Did you mean ${near.join(' or ')}? `;
  throw new MistletoeError('usage', `There is no bundled drafter "${drafter}", and no folder of that name.`, {
    hint: `${guess}Bundled: ${bundledDrafters.join(', ')}. A drafter of your own is given by its folder.`,
  });
}
