/**
 * Marks of the processes that use a cache file, one empty file for each: KEY.PID.HOST in a folder of their own. ONNX
 * Runtime opens the weights again for every program that is compiled, so a file must not vanish under a process that
 * runs. A mark holds while its process lives; of other hosts, which cannot be asked, for a day.
 */
import { rmSync } from 'node:fs';
import { lstat, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { makeFolder } from '../../core/files.js';
import { hostTag, isRunning } from '../../core/processes.js';
import { marksFolder } from './cache-folder.js';

const markName = /^([0-9a-f]{64})\.(\d+)\.([0-9a-f]{16})$/;
const distantMarkMs = 24 * 60 * 60 * 1000;

/** By their paths: what this process uses itself is known even where no mark can be written. */
const ownMarks = new Map<string, { readonly folder: string; readonly key: string }>();

export async function markInUse(folder: string, key: string): Promise<void> {
  const mark = join(folder, marksFolder, `${key}.${process.pid}.${hostTag()}`);
  if (ownMarks.size === 0) process.once('exit', removeOwnMarks);
  ownMarks.set(mark, { folder, key });
  try {
    await makeFolder(join(folder, marksFolder));
    await writeFile(mark, '', { mode: 0o600 });
  } catch {
    return; // where no mark can be written, hardly anything can be removed either
  }
}

export async function isInUse(folder: string, key: string): Promise<boolean> {
  return (await listKeysInUse(folder)).has(key);
}

/** Removes the marks of the dead on its way. */
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
      continue; // a dead process's mark counts for nothing
    }
  }
}
