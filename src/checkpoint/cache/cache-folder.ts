/** The cache's size limit, the names of its files, and which of them processes use. Other files are never removed. */
import { rmSync } from 'node:fs';
import { lstat, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { parseBytes } from '../../core/number-text.js';
import { makeFolderBelow, replaceFile } from '../../core/durable-files.js';
import { type HostEnvironment, kernelsFolder } from '../../core/files.js';
import { MistletoeError } from '../../core/errors.js';
import { hostTag, isRunning } from '../../core/processes.js';

/** Two models of 8 billion parameters in float32. */
const defaultCacheLimitBytes = 64e9;

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

const marksFolder = 'in-use';
const key = '[0-9a-f]{64}';
const sourceHash = '[0-9a-f]{32}\\.hash\\.json';
const writer = '(\\d+)\\.([0-9a-f]{16})'; // core/processes.ts

/**
 * `weights` are the cache files, each with a `note` beside it; `hash` is the sha256 of a checkpoint file. A `temporary`
 * file is being written or loaded by ONNX Runtime, or was left by a killed process.
 */
const forms = {
  weights: new RegExp(`^(${key})\\.weights$`),
  note: new RegExp(`^(${key})\\.weights\\.json$`),
  hash: new RegExp(`^${sourceHash}$`),
  temporary: new RegExp(
    `^(?:${key}(?:\\.weights(?:\\.json)?)?|${sourceHash}|program)\\.${writer}\\.[0-9a-f]{16}\\.(?:tmp|onnx|packed)$`,
  ),
  other: new RegExp(`^(?:${marksFolder}|${kernelsFolder})$`),
};

/** Undefined for files of other programs. `parts`: the key of weights and notes; pid and host of a temporary's writer. */
export function classifyName(name: string) {
  for (const kind of Object.keys(forms) as (keyof typeof forms)[]) {
    const [matched, ...parts] = forms[kind].exec(name) ?? [];
    if (matched !== undefined) return { kind, parts };
  }
  return undefined;
}

export const weightsPath = (folder: string, key: string): string => join(folder, `${key}.weights`);

/**
 * Marks of the processes that use a cache file: empty files KEY.PID.HOST in a folder. ONNX Runtime reopens the weights for
 * every program it compiles, so files in use must not be removed. A mark counts while its process runs; one of another
 * host counts for a day.
 */
const markName = new RegExp(`^(${key})\\.${writer}$`);
const distantMarkMs = 24 * 60 * 60 * 1000;

/** By path. This process's own use counts even if its marks cannot be written. */
const ownMarks = new Map<string, { readonly folder: string; readonly key: string }>();

export async function markInUse(folder: string, key: string): Promise<void> {
  const mark = join(folder, marksFolder, `${key}.${process.pid}.${hostTag()}`);
  if (ownMarks.size === 0) process.once('exit', removeOwnMarks);
  ownMarks.set(mark, { folder, key });
  try {
    makeFolderBelow(folder, join(folder, marksFolder), 'private');
    await replaceFile(mark, '', { readers: 'private', isDurable: false });
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
