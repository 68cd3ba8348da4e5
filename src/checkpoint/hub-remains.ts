/**
 * Files that are being downloaded, HASH.PID.HOST.RANDOM.incomplete beside the finished ones: each is written by one
 * process alone. What a process that ended has left behind is taken over by renaming it, which succeeds for one taker.
 * Downloads of other libraries (HASH.incomplete) are theirs, and stay.
 */
import { readdir, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { hostTag, isRunning, makeProcessTag } from '../core/process-tag.js';

/** Of this process, by path: its own id says nothing about who writes a file, as where it is always the same. */
const beingWritten = new Set<string>();

/** Whoever downloads writes every few seconds; a connection that is silent for five minutes is given up. */
const longestSilenceMs = 15 * 60 * 1000;

export interface Remains {
  readonly path: string;
  readonly sizeBytes: number;
}

/** What nobody writes any more of a file, the largest first. */
export async function listRemains(folder: string, hash: string): Promise<readonly Remains[]> {
  const form = new RegExp(`^${hash}\\.(\\d+)\\.([0-9a-f]{16})\\.[0-9a-f]{16}\\.incomplete$`);
  const found: Remains[] = [];
  for (const name of await readdir(folder).catch(() => [])) {
    const [, pid, host] = form.exec(name) ?? [];
    if (pid === undefined) continue;
    const path = join(folder, name);
    const status = await stat(path).catch(() => undefined);
    if (status?.isFile() !== true) continue;
    const isSilent = Date.now() - status.mtimeMs > longestSilenceMs;
    if (isSilent || (host === hostTag() && !isWriting(Number(pid), path)))
      found.push({ path, sizeBytes: status.size });
  }
  return found.sort((left, right) => right.sizeBytes - left.sizeBytes);
}

function isWriting(pid: number, path: string): boolean {
  return pid === process.pid ? beingWritten.has(path) : isRunning(pid);
}

/** Takes the largest for this process and removes the others; undefined where there are none. */
export async function claimRemains(folder: string, hash: string): Promise<string | undefined> {
  let own: string | undefined;
  for (const { path } of await listRemains(folder, hash)) {
    if (own !== undefined) {
      await rm(path, { force: true }).catch(() => undefined);
      continue;
    }
    const taken = claimNew(folder, hash);
    const isTaken = await rename(path, taken).then(
      () => true,
      () => false, // another process was quicker
    );
    if (isTaken) own = taken;
    else release(taken);
  }
  return own;
}

/** A name for a file that is about to be made. */
export function claimNew(folder: string, hash: string): string {
  const path = join(folder, `${hash}.${makeProcessTag()}.incomplete`);
  beingWritten.add(path);
  return path;
}

export function release(path: string): void {
  beingWritten.delete(path);
}
