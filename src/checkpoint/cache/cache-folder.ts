/** The cache's location and size limit, and the names of its files. Files with other names are never removed. */
import { rmSync } from 'node:fs';
import { lstat, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseBytes } from '../../core/number-text.js';
import { type HostEnvironment, kernelsFolder, makeFolder } from '../../core/files.js';
import { MistletoeError } from '../../core/errors.js';
import { hostTag, isRunning } from '../../core/processes.js';

/** Two models of 8 billion parameters in float32. */
export const defaultCacheLimitBytes = 64e9;

/** $MISTLETOE_CACHE_LIMIT in bytes; infinite where it is `none`. */
export function readCacheLimit(environment: HostEnvironment['environment'] = process.env): number {
  const text = environment.MISTLETOE_CACHE_LIMIT;
  if (text === undefined || text === '') return defaultCacheLimitBytes;
  const bytes = text === 'none' ? Infinity : parseBytes(text);
  if (bytes !== undefined) return bytes;
  throw new MistletoeError(
    'usage',
    `MISTLETOE_CACHE_LIMIT is ${JSON.stringify(text)}; a size with its unit or none was expected.`,
    { hint: 'Set it to for example 50GB, to none for no limit, or unset it.' },
  );
}

/**
 * `weights` are the cache files, each with a `note` beside it. A `hash` holds the sha256 of a checkpoint file. A
 * `temporary` file is being written or loaded by ONNX Runtime, or was left by a killed process.
 */
export type CacheName =
  | { readonly kind: 'weights' | 'note'; readonly key: string }
  | { readonly kind: 'temporary'; readonly writer: { readonly pid: number; readonly host: string } }
  | { readonly kind: 'hash' | 'marks' | 'kernels' | 'foreign' };

export const marksFolder = 'in-use';

const weightsName = /^([0-9a-f]{64})\.weights(\.json)?$/;
const hashName = /^[0-9a-f]{32}\.hash\.json$/;
const unfinished = '(?:[0-9a-f]{64}(?:\\.weights(?:\\.json)?)?|[0-9a-f]{32}\\.hash\\.json)';
const tag = '(\\d+)\\.([0-9a-f]{16})\\.[0-9a-f]{16}'; // core/processes.ts
const temporaryName = new RegExp(`^(?:${unfinished}\\.${tag}\\.tmp|program\\.${tag}\\.(?:onnx|packed))$`);

export function classifyName(name: string): CacheName {
  const [, key, isNote] = weightsName.exec(name) ?? [];
  if (key !== undefined) return { kind: isNote === undefined ? 'weights' : 'note', key };
  if (hashName.test(name)) return { kind: 'hash' };
  const temporary = temporaryName.exec(name);
  if (temporary !== null) {
    const [, pid = temporary[3], host = temporary[4]!] = temporary; // of the one name or of the other
    return { kind: 'temporary', writer: { pid: Number(pid), host } };
  }
  if (name === kernelsFolder) return { kind: 'kernels' };
  return { kind: name === marksFolder ? 'marks' : 'foreign' };
}

export const weightsPath = (folder: string, key: string): string => join(folder, `${key}.weights`);

/**
 * Marks of the processes that use a cache file: empty files KEY.PID.HOST in a folder. ONNX Runtime reopens the weights for
 * every program it compiles, so files in use must not be removed. A mark counts while its process runs; one of another
 * host counts for a day.
 */
const markName = /^([0-9a-f]{64})\.(\d+)\.([0-9a-f]{16})$/;
const distantMarkMs = 24 * 60 * 60 * 1000;

/** By path. This process's own use counts even if its marks cannot be written. */
const ownMarks = new Map<string, { readonly folder: string; readonly key: string }>();

export async function markInUse(folder: string, key: string): Promise<void> {
  const mark = join(folder, marksFolder, `${key}.${process.pid}.${hostTag()}`);
  if (ownMarks.size === 0) process.once('exit', removeOwnMarks);
  ownMarks.set(mark, { folder, key });
  try {
    await makeFolder(join(folder, marksFolder));
    await writeFile(mark, '', { mode: 0o600 });
  } catch {
    return; // such a folder is most likely read-only, so nothing is removed from it either
  }
}

/** Also removes the marks of dead processes. */
export async function listKeysInUse(folder: string): Promise<ReadonlySet<string>> {
  const keys = new Set<string>();
  for (const name of await readdir(join(folder, marksFolder)).catch(() => [])) {
    const [, key, pid, host] = markName.exec(name) ?? [];
    if (key === undefined) continue;
    const path = join(folder, marksFolder, name);
    const markedMs = (await lstat(path).catch(() => undefined))?.mtimeMs ?? 0;
    const isYoung = Date.now() - markedMs < distantMarkMs;
    if (host === hostTag() ? isRunning(Number(pid)) : isYoung) keys.add(key);
    else await rm(path, { force: true }).catch(() => undefined);
  }
  for (const own of ownMarks.values()) if (own.folder === folder) keys.add(own.key);
  return keys;
}

function removeOwnMarks(): void {
  for (const mark of ownMarks.keys()) {
    try {
      rmSync(mark, { force: true });
    } catch {
      continue; // marks of dead processes do not count
    }
  }
}
