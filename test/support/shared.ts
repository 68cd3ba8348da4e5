import { existsSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';

export { readGoldenPrompts } from './golden.js';
export { referenceModels as bundledModels } from './model-folders.js';

/** The folder of prompt sets and other families' values beside the repository; suites that need it skip where it is absent. */
export const sharedFolder = resolve(import.meta.dirname, '../../../shared');
export const hasShared = ['golden/reference-2.json', 'data'].every((path) =>
  existsSync(resolve(sharedFolder, path)),
);
if (!hasShared)
  console.warn(`Skipped: ${sharedFolder} with prompts and values of other families is not there.`);

export function readShared(path: string): unknown {
  return JSON.parse(readFileSync(resolve(sharedFolder, path), 'utf8'));
}
