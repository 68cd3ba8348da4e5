/**
 * Files in the cache that a runtime has made of converted weights, such as weights packed for the kernels of one
 * processor. They are cache files like any other: named by a hash of what they were made from and for, written whole
 * or not at all, checked before use, listed, counted against the limit and removed with the rest.
 */
import { createHash } from 'node:crypto';
import { lstat } from 'node:fs/promises';
import { describeCause } from '../../core/errors.js';
import type { DerivedFile, DerivedFiles, DerivedRequest } from '../../runtime/weights.js';
import { checkForUse, recordUse } from './cache-check.js';
import { CacheFailure, makeCacheFile, unwritable } from './cache-writing.js';
import type { CacheOutput } from './cache-file.js';
import { formatVersion, readTable, writeDerivedFile } from './cache-file.js';
import { weightsPath } from './cache-folder.js';
import { markInUse } from './cache-use.js';
import { identifyFile } from './content-hash.js';

export interface DerivedOptions {
  readonly folder: string;
  /** Of the weights that they are made of. */
  readonly weightsKey: string;
  readonly checkpoint: string;
  readonly limitBytes: number;
  readonly openOutput: (path: string) => Promise<CacheOutput>;
  readonly largeBytes: number | undefined;
  readonly verify: boolean | undefined;
  readonly onNotice: ((message: string) => void) | undefined;
}

export function createDerivedFiles(options: DerivedOptions): DerivedFiles {
  return {
    async keep(request) {
      try {
        return await keepFile(request, options);
      } catch (failure) {
        const { message, remedy } =
          failure instanceof CacheFailure ? failure : unwritable(options.folder, describeCause(failure));
        options.onNotice?.(
          `${message}; without packed weights in it, decoding with this model is several times slower. ${remedy}`,
        );
        return undefined;
      }
    },
  };
}

async function keepFile(
  { purpose, sizeBytes, write }: DerivedRequest,
  { folder, weightsKey, checkpoint, limitBytes, openOutput, largeBytes, verify, onNotice }: DerivedOptions,
): Promise<DerivedFile> {
  const key = createHash('sha256')
    .update(JSON.stringify({ format: formatVersion, weights: weightsKey, purpose }))
    .digest('hex');
  const path = weightsPath(folder, key);
  await markInUse(folder, key);
  const check = () => checkForUse(path, { fits: (footer) => footer.key === key, largeBytes, verify });
  let usable = await check();
  if (usable === undefined) {
    if ((await lstat(path).catch(() => undefined)) !== undefined)
      onNotice?.(`The weight cache file ${path} is damaged and is made anew.`);
    let failure: unknown;
    try {
      await makeCacheFile({
        ...{ folder, key, content: 'packed weights', sizeBytes, limitBytes, openOutput },
        write: (output) => writeDerivedFile(output, key, write),
      });
      await recordUse(path, { identity: await identifyFile(path), checkpoint });
    } catch (cause) {
      failure = cause;
    }
    // Also after a failure: where an open file cannot be replaced, a race was lost and the winner's file is there.
    usable = await check();
    if (usable === undefined)
      throw failure instanceof Error ? failure : unwritable(folder, `${path} was damaged at once`);
  }
  await recordUse(path, { identity: usable.identity, checkpoint });
  return { path, table: readTable(usable.footer) };
}
