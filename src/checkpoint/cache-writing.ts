/** Makes a cache file: room for it, then under a name of its own, then by one rename to where it belongs. */
import { randomBytes } from 'node:crypto';
import { rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { formatBytes } from '../core/byte-size.js';
import { CacheFailure, onDisk } from './cache-failure.js';
import type { CacheOutput } from './cache-file.js';
import { writeCacheFile } from './cache-file.js';
import { weightsPath } from './cache-folder.js';
import { makeRoom, trimCache } from './cache-removal.js';
import { identifyFile } from './content-hash.js';
import { refuse } from './stored-tensor.js';
import type { ResolvedRecipe } from './weight-recipe.js';

export interface CacheFilePlan {
  readonly folder: string;
  readonly key: string;
  readonly recipes: readonly ResolvedRecipe[];
  readonly sizeBytes: number;
  readonly limitBytes: number;
  /** Weight files of the checkpoint, and which they were when the key was computed. */
  readonly sources: readonly string[];
  readonly identities: readonly string[];
  readonly openOutput: (path: string) => Promise<CacheOutput>;
}

export async function makeCacheFile(plan: CacheFilePlan): Promise<void> {
  const { folder, key, limitBytes } = plan;
  await claimRoom(plan);
  const temporary = join(folder, `${key}.${process.pid}.${randomBytes(8).toString('hex')}.tmp`);
  try {
    await writeTemporary(temporary, plan);
    await requireSameSources(plan);
    await onDisk(folder, () => rename(temporary, weightsPath(folder, key)));
  } catch (failure) {
    await rm(temporary, { force: true }).catch(() => undefined);
    throw failure;
  }
  // Somebody else may have written meanwhile, into the same room.
  if (Number.isFinite(limitBytes)) await trimCache(folder, limitBytes).catch(() => undefined);
}

async function claimRoom({ folder, key, sizeBytes, limitBytes }: CacheFilePlan): Promise<void> {
  if (await onDisk(folder, () => makeRoom(folder, { key, sizeBytes, limitBytes }))) return;
  const limit = `the ${formatBytes(limitBytes)} that the weight cache in ${folder} may hold`;
  throw new CacheFailure(
    sizeBytes > limitBytes
      ? `The converted weights take ${formatBytes(sizeBytes)}, more than ${limit}`
      : `The converted weights take ${formatBytes(sizeBytes)} and do not fit into ${limit} beside what is in use`,
    'Set MISTLETOE_CACHE_LIMIT higher, or to none.',
  );
}

async function writeTemporary(
  path: string,
  { folder, key, recipes, openOutput }: CacheFilePlan,
): Promise<void> {
  const output = await onDisk(folder, () => openOutput(path));
  try {
    const guarded: CacheOutput = {
      write: (bytes) => onDisk(folder, () => output.write(bytes)),
      finish: () => onDisk(folder, () => output.finish()),
      abandon: () => output.abandon(),
    };
    await writeCacheFile(guarded, key, recipes);
  } catch (failure) {
    await output.abandon();
    throw failure;
  }
}

async function requireSameSources({ sources, identities }: CacheFilePlan): Promise<void> {
  const now = await Promise.all(sources.map(identifyFile));
  if (now.join() === identities.join()) return;
  throw refuse(
    `the weights of ${sources.join(', ')} changed while they were read`,
    'Wait until they are fully written, then try again.',
  );
}
