/** Checks and makes cache files. A new one is written under a temporary name and renamed when it is whole. */
import { lstat, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { formatBytes } from '../../core/byte-size.js';
import { describeCause } from '../../core/errors.js';
import { makeProcessTag } from '../../core/processes.js';
import { checkForUse, recordUse } from './cache-check.js';
import type { CacheFooter, CacheOutput } from './cache-file.js';
import { markInUse, weightsPath } from './cache-folder.js';
import { makeRoom, trimCache } from './cache-removal.js';
import { identifyFile } from './content-hash.js';

/** The cache cannot hold the weights. They can still be used from memory. */
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

/** Failures of the disk under the cache become cache failures. */
export async function onDisk<Result>(folder: string, action: () => Promise<Result>): Promise<Result> {
  try {
    return await action();
  } catch (cause) {
    throw unwritable(folder, describeCause(cause), cause);
  }
}

/** The cache for one checkpoint. */
export interface CachePlace {
  readonly folder: string;
  /** Folder of the checkpoint, for the note beside each file. */
  readonly checkpoint: string;
  readonly limitBytes: number;
  readonly openOutput: (path: string) => Promise<CacheOutput>;
  readonly largeBytes: number | undefined;
  readonly verify: boolean | undefined;
  readonly onNotice: ((message: string) => void) | undefined;
}

export interface CacheFilePlan {
  readonly key: string;
  /** For messages. */
  readonly content: 'converted weights' | 'packed weights';
  readonly sizeBytes: number;
  readonly fits: (footer: CacheFooter) => boolean;
  readonly write: (output: CacheOutput) => Promise<void>;
  /** Throws if what was written must not be kept. */
  readonly confirm?: (() => Promise<void>) | undefined;
}

/** The file if it is there and whole; otherwise it is made. */
export async function obtainCacheFile(
  place: CachePlace,
  plan: CacheFilePlan,
): Promise<{ readonly path: string; readonly footer: CacheFooter }> {
  const { folder, checkpoint, largeBytes, verify } = place;
  const path = weightsPath(folder, plan.key);
  // Before the file is checked: from here on no other process removes it.
  await markInUse(folder, plan.key);
  const check = () => checkForUse(path, { fits: plan.fits, largeBytes, verify });
  let usable = await check();
  if (usable === undefined) {
    const present = await lstat(path).catch(() => undefined);
    if (present?.isDirectory() === true) throw unwritable(folder, `${path} is a folder`);
    if (present !== undefined) place.onNotice?.(`The weight cache file ${path} is damaged and is made anew.`);
    let failure: unknown;
    try {
      await makeCacheFile(place, plan);
      const identity = await onDisk(folder, () => identifyFile(path));
      await recordUse(path, { identity, checkpoint });
    } catch (cause) {
      if (!(cause instanceof CacheFailure)) throw cause;
      failure = cause;
    }
    // Also after a failure: another process may have made the file, and have it open so that it cannot be replaced.
    usable = await check();
    if (usable === undefined)
      throw failure instanceof Error ? failure : unwritable(folder, `${path} was damaged at once`);
  }
  await recordUse(path, { identity: usable.identity, checkpoint });
  return { path, footer: usable.footer };
}

async function makeCacheFile(place: CachePlace, plan: CacheFilePlan): Promise<void> {
  const { folder, limitBytes } = place;
  await claimRoom(place, plan);
  const temporary = join(folder, `${plan.key}.${makeProcessTag()}.tmp`);
  try {
    await writeTemporary(temporary, place, plan);
    await plan.confirm?.();
    await onDisk(folder, () => rename(temporary, weightsPath(folder, plan.key)));
  } catch (failure) {
    await rm(temporary, { force: true }).catch(() => undefined);
    throw failure;
  }
  // Another process may have filled the same room meanwhile.
  if (Number.isFinite(limitBytes)) await trimCache(folder, limitBytes).catch(() => undefined);
}

async function claimRoom(
  { folder, limitBytes }: CachePlace,
  { key, content, sizeBytes }: CacheFilePlan,
): Promise<void> {
  if (await onDisk(folder, () => makeRoom(folder, { key, sizeBytes, limitBytes }))) return;
  const limit = `the ${formatBytes(limitBytes)} that the weight cache in ${folder} may hold`;
  throw new CacheFailure(
    sizeBytes > limitBytes
      ? `The ${content} take ${formatBytes(sizeBytes)}, more than ${limit}`
      : `The ${content} take ${formatBytes(sizeBytes)} and do not fit into ${limit} beside what is in use`,
    'Set MISTLETOE_CACHE_LIMIT higher, or to none.',
  );
}

async function writeTemporary(
  path: string,
  { folder, openOutput }: CachePlace,
  { write }: CacheFilePlan,
): Promise<void> {
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
