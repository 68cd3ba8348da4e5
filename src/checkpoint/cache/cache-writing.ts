/** Makes a cache file: room for it, then under a name of its own, then by one rename to where it belongs. */
import { rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { formatBytes } from '../../core/byte-size.js';
import { describeCause } from '../../core/errors.js';
import { makeProcessTag } from '../../core/processes.js';
import type { CacheOutput } from './cache-file.js';
import { weightsPath } from './cache-folder.js';
import { makeRoom, trimCache } from './cache-removal.js';

/** The cache cannot take the weights; they can still be used from memory. A checkpoint that cannot be read is none. */
export class CacheFailure extends Error {
  constructor(
    message: string,
    readonly remedy: string,
    cause?: unknown,
  ) {
    super(message, { cause });
  }
}

export function unwritable(folder: string, reason: string, cause?: unknown): CacheFailure {
  return new CacheFailure(
    `The weight cache in ${folder} cannot be written (${reason})`,
    'Set MISTLETOE_CACHE to a folder with room.',
    cause,
  );
}

/** For what only the disk under the cache can refuse. */
export async function onDisk<Result>(folder: string, action: () => Promise<Result>): Promise<Result> {
  try {
    return await action();
  } catch (cause) {
    throw unwritable(folder, describeCause(cause), cause);
  }
}

export interface CacheFilePlan {
  readonly folder: string;
  readonly key: string;
  /** For sentences. */
  readonly content: 'converted weights' | 'packed weights';
  readonly sizeBytes: number;
  readonly limitBytes: number;
  readonly openOutput: (path: string) => Promise<CacheOutput>;
  readonly write: (output: CacheOutput) => Promise<void>;
  /** Throws if what was written must not be kept. */
  readonly confirm?: () => Promise<void>;
}

export async function makeCacheFile(plan: CacheFilePlan): Promise<void> {
  const { folder, key, limitBytes } = plan;
  await claimRoom(plan);
  const temporary = join(folder, `${key}.${makeProcessTag()}.tmp`);
  try {
    await writeTemporary(temporary, plan);
    await plan.confirm?.();
    await onDisk(folder, () => rename(temporary, weightsPath(folder, key)));
  } catch (failure) {
    await rm(temporary, { force: true }).catch(() => undefined);
    throw failure;
  }
  // Somebody else may have written meanwhile, into the same room.
  if (Number.isFinite(limitBytes)) await trimCache(folder, limitBytes).catch(() => undefined);
}

async function claimRoom({ folder, key, content, sizeBytes, limitBytes }: CacheFilePlan): Promise<void> {
  if (await onDisk(folder, () => makeRoom(folder, { key, sizeBytes, limitBytes }))) return;
  const limit = `the ${formatBytes(limitBytes)} that the weight cache in ${folder} may hold`;
  throw new CacheFailure(
    sizeBytes > limitBytes
      ? `The ${content} take ${formatBytes(sizeBytes)}, more than ${limit}`
      : `The ${content} take ${formatBytes(sizeBytes)} and do not fit into ${limit} beside what is in use`,
    'Set MISTLETOE_CACHE_LIMIT higher, or to none.',
  );
}

async function writeTemporary(path: string, { folder, openOutput, write }: CacheFilePlan): Promise<void> {
  const output = await onDisk(folder, () => openOutput(path));
  try {
    await write({
      write: (bytes) => onDisk(folder, () => output.write(bytes)),
      finish: () => onDisk(folder, () => output.finish()),
      abandon: () => output.abandon(),
    });
  } catch (failure) {
    await output.abandon();
    throw failure;
  }
}
