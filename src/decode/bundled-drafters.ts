/** The drafters that come with the package, by name; they belong to the bundled target. */
import { join } from 'node:path';
import { packageRoot } from './bundled-models.js';

export const bundledDrafters = ['sps', 'medusa', 'hydra', 'eagle', 'eagle3'] as const;
export type BundledDrafter = (typeof bundledDrafters)[number];

export function bundledDrafterFolder(name: BundledDrafter): string {
  return join(packageRoot, 'models/reference', name);
}
