/**
 * Marks of the processes that use a cache file: empty files KEY.PID.HOST in a folder. ONNX Runtime reopens the weights for
 * every program it compiles, so files in use must not be removed. A mark counts while its process runs; one of another
 * host counts for a day.
 */
import { rmSync } from 'node:fs';
import { lstat, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { makeFolder } from '../../core/files.js';
import { hostTag, isRunning } from '../../core/processes.js';
import { marksFolder } from './cache-folder.js';

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

export async function isInUse(folder: string, key: string): Promise<boolean> {
  return (await listKeysInUse(folder)).has(key);
}

/** Also removes the marks of dead processes. */
export async function listKeysInUse(folder: string): Promise<ReadonlySet<string>> {
  const keys = new Set<string>();
  for (const name of await readdir(join(folder, marksFolder)).catch(() => [])) {
    const [, key, pid, host] = markName.exec(name) ?? [];
    if (key === undefined) continue;
    const path = join(folder, marksFolder, name);
    if (host === hostTag() ? isRunning(Number(pid)) : await isYoung(path)) keys.add(key);
    else await rm(path, { force: true }).catch(() => undefined);
  }
  for (const own of ownMarks.values()) if (own.folder === folder) keys.add(own.key);
  return keys;
}

async function isYoung(path: string): Promise<boolean> {
  const status = await lstat(path).catch(() => undefined);
  return status !== undefined && Date.now() - status.mtimeMs < distantMarkMs;
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
