/**
 * Lists, verifies and removes cache files. Files are unlinked one at a time: a process that has mapped one keeps it, and
 * a killed removal leaves a smaller, valid cache. Files that a running process uses stay.
 */
import { lstat, readdir, rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { describeCause } from '../../core/errors.js';
import { isMissing, kernelFileName, kernelsFolder } from '../../core/files.js';
import { hostTag, isRunning } from '../../core/processes.js';
import { runWithLimit } from '../../core/promises.js';
import { withFile } from '../binary-file.js';
import { StorageFailure } from '../written-folder.js';
import type { CheckedFile } from './cache-file.js';
import { checkCacheFile, notePath, readFooter, readLastUse, readNote, recordCheck } from './cache-file.js';
import { classifyName, listKeysInUse, readCacheLimit } from './cache-folder.js';

export interface CachedWeights {
  readonly key: string;
  readonly path: string;
  readonly sizeBytes: number;
  readonly lastUsed: Date;
  /** By a running process. */
  readonly isInUse: boolean;
}

/** Notes, hashes and temporary files. */
interface SmallFile {
  readonly kind: string;
  readonly path: string;
  /** That counts towards the limit: notes and hashes are too small to count. */
  readonly sizeBytes: number;
  /** Left by a killed process. */
  readonly isAbandoned: boolean;
}

interface Survey {
  readonly folder: string;
  /** The least recently used first. */
  readonly weights: CachedWeights[];
  readonly small: SmallFile[];
  readonly foreignCount: number;
}

/** If a writer's state is unknown, an hour without a write means that it is dead. */
const restMs = 60 * 60 * 1000;

/** The files of a cache folder by name and stat; their content is not read. A missing folder counts as empty. */
async function survey(givenFolder: string): Promise<Survey> {
  const folder = resolve(givenFolder);
  const inUse = await listKeysInUse(folder);
  const names = await listNames(folder);
  const known = new Set(names);
  const weights: CachedWeights[] = [];
  const small: SmallFile[] = [];
  let foreignCount = 0;
  const visit = async (name: string): Promise<void> => {
    const { kind, parts = [] } = classifyName(name) ?? {};
    if (kind === 'other') return;
    const path = join(folder, name);
    const status = kind === undefined ? undefined : await lstat(path).catch(() => undefined);
    if (kind === undefined || status?.isFile() !== true) {
      foreignCount += 1; // also folders and links with the name of a cache file
    } else if (kind === 'weights') {
      const lastUsed = (await readLastUse(path)) ?? status.mtime;
      const key = parts[0]!;
      weights.push({ key, path, sizeBytes: status.size, lastUsed, isInUse: inUse.has(key) });
    } else {
      const isOld = Date.now() - status.mtimeMs > restMs;
      const [pid, host] = parts;
      const isTemporary = kind === 'temporary';
      const isAbandoned = isTemporary
        ? isOld || (host === hostTag() && !isRunning(Number(pid)))
        : isOld && kind === 'note' && !known.has(name.replace(/\.json$/, ''));
      small.push({ kind, path, sizeBytes: isTemporary ? status.size : 0, isAbandoned });
    }
  };
  await runWithLimit(
    names.map((name) => () => visit(name)),
    64,
  );
  weights.sort(
    (left, right) => left.lastUsed.getTime() - right.lastUsed.getTime() || (left.key < right.key ? -1 : 1),
  );
  return { folder, weights, small, foreignCount };
}

async function listNames(folder: string): Promise<readonly string[]> {
  try {
    return await readdir(folder);
  } catch (cause) {
    if (isMissing(cause)) return [];
    throw new StorageFailure('usage', `The cache folder ${folder} cannot be read: ${describeCause(cause)}.`, {
      hint: 'Give --cache-dir or set MISTLETOE_CACHE to a folder that you may read.',
      cause,
    });
  }
}

const countBytes = (files: readonly { readonly sizeBytes: number }[]): number =>
  files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);

/**
 * The most recently used weights first.
 * @example const { totalBytes, weights } = await describeCache(defaultCacheFolder());
 */
export async function describeCache(givenFolder: string, limitBytes: number = readCacheLimit()) {
  const { folder, weights: found, small, foreignCount } = await survey(givenFolder);
  const weights: DescribedWeights[] = [];
  for (const each of found.toReversed()) {
    const { checkpoint = '' } = (await readNote(each.path)) ?? {};
    const footer = await withFile(each.path, readFooter).catch(() => 'damaged');
    const content = typeof footer === 'string' ? undefined : contentOf(footer);
    weights.push({ ...each, checkpoint: checkpoint === '' ? undefined : checkpoint, content });
  }
  const totalBytes = countBytes([...weights, ...small]);
  const temporaryCount = small.filter(({ kind }) => kind === 'temporary').length;
  return { folder, limitBytes, weights, totalBytes, temporaryCount, foreignCount };
}

export type CacheContents = Awaited<ReturnType<typeof describeCache>>;

const contentOf = ({ table }: { readonly table?: unknown }) => (table === undefined ? 'plain' : 'packed');

export interface DescribedWeights extends CachedWeights {
  /** Folder of the checkpoint that it was last used for, if known. */
  readonly checkpoint: string | undefined;
  /** Undefined if the file is damaged or of another version. */
  readonly content: 'plain' | 'packed' | undefined;
}

export interface CheckedWeights extends CachedWeights {
  readonly result: CheckedFile['result'];
}

/** Hashes every file. A damaged one is made again when it is next needed. */
export async function verifyCache(folder: string): Promise<readonly CheckedWeights[]> {
  const all: CheckedWeights[] = [];
  for (const weights of (await survey(folder)).weights.toReversed()) {
    const checked = await checkCacheFile(weights.path, weights.key, true);
    const { result } = checked;
    if (result !== 'other-format')
      await recordCheck(weights.path, checked.result === 'whole' ? checked.identity : '');
    all.push({ ...weights, result });
  }
  return all;
}

export interface Removal {
  readonly removed: readonly CachedWeights[];
  /** Kept only because a running process uses them. */
  readonly inUse: readonly CachedWeights[];
  readonly failures: readonly { readonly path: string; readonly reason: string }[];
  readonly leftBytes: number;
}

/** Removes the least recently used files until the rest takes at most `maxBytes`. */
export async function trimCache(folder: string, maxBytes: number): Promise<Removal> {
  return remove(await survey(folder), maxBytes);
}

/** Removes what killed processes were writing. */
export async function removeLeftovers(folder: string): Promise<void> {
  await remove(await survey(folder), Infinity);
}

/** Removes all files except those in use, those being written, and those of other programs. */
export async function clearCache(folder: string): Promise<Removal> {
  // Small files that are compiled again when needed; they do not count towards the limit.
  const kernels = join(folder, kernelsFolder);
  for (const name of await readdir(kernels).catch(() => []))
    if (kernelFileName.test(name)) await rm(join(kernels, name), { force: true }).catch(() => undefined);
  return remove(await survey(folder), -1);
}

/** Makes room for a file, which may replace one of the same key. If it cannot fit, returns false and removes nothing. */
export async function makeRoom(
  folder: string,
  key: string,
  sizeBytes: number,
  limitBytes: number,
): Promise<boolean> {
  const found = await survey(folder);
  const weights = found.weights.filter((each) => each.key !== key);
  const stays = [
    ...weights.filter(({ isInUse }) => isInUse),
    ...found.small.filter(({ isAbandoned }) => !isAbandoned),
  ];
  const maxBytes = limitBytes - sizeBytes;
  const canFit = countBytes(stays) <= maxBytes;
  const { leftBytes } = await remove({ ...found, weights }, canFit ? maxBytes : Infinity);
  return leftBytes <= maxBytes;
}

/** Less than 0 bytes: all weights, and the hashes. */
async function remove({ folder, weights, small }: Survey, maxBytes: number): Promise<Removal> {
  const removed: CachedWeights[] = [];
  const inUse: CachedWeights[] = [];
  const failures: { path: string; reason: string }[] = [];
  let leftBytes = countBytes([...weights, ...small]);
  const unlink = async (path: string, sizeBytes: number): Promise<boolean> => {
    try {
      await rm(path, { force: true });
      leftBytes -= sizeBytes;
      return true;
    } catch (cause) {
      failures.push({ path, reason: describeCause(cause) });
      return false;
    }
  };
  for (const { kind, path, sizeBytes, isAbandoned } of small)
    if (isAbandoned || (kind === 'hash' && maxBytes < 0)) await unlink(path, sizeBytes);
  for (const each of weights) {
    if (leftBytes <= maxBytes) break;
    // Checked again: another process may have started to use it since the survey.
    if (each.isInUse || (await listKeysInUse(folder)).has(each.key)) {
      inUse.push(each);
    } else if (await unlink(each.path, each.sizeBytes)) {
      // The weights first: if this process is killed in between, the note that remains is harmless.
      await unlink(notePath(each.path), 0);
      removed.push(each);
    }
  }
  return { removed, inUse, failures, leftBytes };
}
