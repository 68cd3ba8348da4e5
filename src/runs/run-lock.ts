/**
 * A run is open in one process at a time: whoever opens it holds a lock file that names the process, and a lock whose
 * process is dead (kill -9) is taken over. Two rules make that safe without the operating system's help:
 *
 * - A lock comes into being whole, by linking a finished file to its name, which succeeds for one process alone.
 * - A dead lock with the nonce N is removed only by whoever holds the lock `NAME.N`. So nobody can remove a lock that
 *   another process took over a moment ago in the belief that it is still the dead one.
 *
 * A process is known by its id and, where there is /proc, its start time: ids are used again.
 */
import { randomBytes } from 'node:crypto';
import { existsSync, linkSync, lstatSync, readdirSync, readFileSync, unlinkSync } from 'node:fs';
import { hostname } from 'node:os';
import { basename, dirname, join } from 'node:path';
import * as z from '../core/schema.js';
import { removeTemporaries, writeNewFileSync } from '../core/durable-files.js';
import { codeOf, MistletoeError } from '../core/errors.js';
import { isMissing, readBoundedFileSync } from '../core/files.js';

export const lockName = 'run.lock';
/** The lock and what comes and goes beside it. */
export const isLockFile = (name: string): boolean => name === lockName || name.startsWith(`${lockName}.`);

const holderSchema = z.object({
  pid: z.int().positive(),
  /** In clock ticks since the machine started; null without /proc. */
  processStart: z.string().nullable(),
  host: z.string(),
  /** When the run was opened. */
  since: z.string(),
  nonce: z.string().regex(/^[0-9a-f]{16}$/),
});
type Holder = z.infer<typeof holderSchema>;

export interface RunLock {
  release(): void;
}

/** Refuses a run that a living process has open. */
export function lockRun(folder: string): RunLock {
  const path = join(folder, lockName);
  const own = acquire(path, (holder) => {
    refuseHeld(folder, path, holder);
  });
  // Leftovers of processes that were killed while they locked; none of these decides anything any more.
  for (const name of readdirSync(folder)) {
    if (name !== lockName && isLockFile(name)) removeIfThere(join(folder, name));
  }
  removeTemporaries(folder);
  return {
    release() {
      try {
        if (readHolder(path)?.nonce === own.nonce) removeIfThere(path);
      } catch {
        // It is taken over once this process has ended.
      }
    },
  };
}

/** A host's name has 253 characters at most. */
const maxLockBytes = 4096;
const mostAttempts = 1000;

/** `onHeld` may throw; where it returns, the lock is tried again. */
function acquire(path: string, onHeld: (holder: Holder) => void): Holder {
  for (let attempt = 0; attempt < mostAttempts; attempt++) {
    const own = createHolder();
    if (claim(path, own)) return own;
    const holder = readHolder(path);
    if (holder === undefined) continue; // released meanwhile
    if (isDead(holder)) removeDead(path, holder);
    else onHeld(holder);
  }
  throw new MistletoeError('runtime', `${path} changes faster than it can be read.`, {
    hint: 'Let one process at a time work on the run.',
  });
}

function createHolder(): Holder {
  return {
    pid: process.pid,
    processStart: describeProcess(process.pid).start,
    host: hostname(),
    since: new Date().toISOString(),
    nonce: randomBytes(8).toString('hex'),
  };
}

/** True for exactly one of those who try at the same moment. */
function claim(path: string, own: Holder): boolean {
  const part = `${path}.${own.pid}-${own.nonce}.part`;
  const text = `${JSON.stringify(own)}\n`;
  try {
    writeNewFileSync(part, text);
    linkSync(part, path);
    return true;
  } catch (cause) {
    const code = codeOf(cause);
    // The part may vanish when the holder tidies up: there is a holder, then.
    if (code === 'EEXIST' || (code === 'ENOENT' && existsSync(dirname(path)))) return false;
    if (!['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK'].includes(code ?? '')) throw cause;
    return claimWithoutLinks(path, text);
  } finally {
    removeIfThere(part);
  }
}

/** For file systems without hard links: as exclusive, but for a moment the file is empty. */
function claimWithoutLinks(path: string, text: string): boolean {
  try {
    writeNewFileSync(path, text);
    return true;
  } catch (cause) {
    if (codeOf(cause) === 'EEXIST') return false;
    throw cause;
  }
}

function removeDead(path: string, dead: Holder): void {
  const right = `${path}.${dead.nonce}`;
  acquire(right, () => {
    pause(5); // another process is about to remove it
  });
  try {
    if (readHolder(path)?.nonce === dead.nonce) removeIfThere(path);
  } finally {
    removeIfThere(right);
  }
}

function pause(milliseconds: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds);
}

function removeIfThere(path: string): void {
  try {
    unlinkSync(path);
  } catch (cause) {
    if (codeOf(cause) !== 'ENOENT') throw cause;
  }
}

function readHolder(path: string): Holder | undefined {
  try {
    if (!lstatSync(path).isFile()) throw new Error('it is not a regular file');
    return holderSchema.parse(JSON.parse(readBoundedFileSync(path, maxLockBytes).toString('utf8')));
  } catch (cause) {
    if (isMissing(cause)) return undefined;
    throw new MistletoeError('usage', `${path} says that the run is open, but not in which process.`, {
      hint: `If nothing works on it, remove ${basename(path)} from ${dirname(path)} and try again.`,
      cause,
    });
  }
}

function isDead(holder: Holder): boolean {
  if (holder.host !== hostname()) return false; // cannot be seen from here
  const { isAlive, start } = describeProcess(holder.pid);
  return !isAlive || (start !== null && holder.processStart !== null && start !== holder.processStart);
}

function describeProcess(pid: number): { readonly isAlive: boolean; readonly start: string | null } {
  try {
    process.kill(pid, 0);
  } catch (cause) {
    if (codeOf(cause) === 'ESRCH') return { isAlive: false, start: null };
  }
  try {
    // The name stands in brackets and may hold anything; the fields behind it are numbered from 3.
    const fields = readFileSync(`/proc/${pid}/stat`, 'latin1')
      .replace(/^.*\) /s, '')
      .split(' ');
    // A process that nobody has waited for yet (Z) has ended all the same.
    return { isAlive: !/^[ZXx]$/.test(fields[0] ?? ''), start: fields[22 - 3] ?? null };
  } catch {
    return { isAlive: true, start: null };
  }
}

function refuseHeld(folder: string, path: string, { pid, host, since }: Holder): never {
  if (host !== hostname()) {
    throw new MistletoeError(
      'usage',
      `${folder} was opened by process ${pid} on the machine ${host} (${since}); whether that still works on it cannot be seen from here.`,
      { hint: `If it does not, remove ${path} and try again.` },
    );
  }
  const who = pid === process.pid ? `this process (${pid})` : `process ${pid}`;
  throw new MistletoeError('usage', `${folder} is open: ${who} has been working on it since ${since}.`, {
    hint: 'Wait until it ends, or stop it, and then resume; or work in another folder.',
  });
}
