/** What the package contains besides code: its version, the bundled models, and example prompts. */
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const packageRoot = findPackageRoot(dirname(fileURLToPath(import.meta.url)));

export function readVersion(): string {
  const contents = JSON.parse(readFileSync(join(packageRoot, 'package.json'), 'utf8')) as { version: string };
  return contents.version;
}

export const bundledTarget = join(packageRoot, 'models/reference/target');

export const bundledPrompts = join(packageRoot, 'examples/prompts.jsonl');

/** They belong to the bundled target. */
export const bundledDrafters = ['sps', 'medusa', 'hydra', 'eagle', 'eagle3'] as const;
export type BundledDrafter = (typeof bundledDrafters)[number];

export function bundledDrafterFolder(name: BundledDrafter): string {
  return join(packageRoot, 'models/reference', name);
}

function findPackageRoot(start: string): string {
  let folder = start;
  while (!existsSync(join(folder, 'package.json'))) {
    const parent = dirname(folder);
    if (parent === folder) return start;
    folder = parent;
  }
  return folder;
}
