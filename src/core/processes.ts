/**
 * Temporary files have the tag PID.HOST.RANDOM of their writer in their names, so that other processes can tell whether
 * it is still running.
 */
import { createHash, randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { codeOf } from './errors.js';

/** Unique for each call. */
export function makeProcessTag(): string {
  return `${process.pid}.${hostTag()}.${randomBytes(8).toString('hex')}`;
}

export function hostTag(): string {
  return createHash('sha256').update(hostname()).digest('hex').slice(0, 16);
}

/** For processes of this host. */
export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (cause) {
    return codeOf(cause) === 'EPERM'; // it runs as another user
  }
}

/**
 * Paths that this process writes. The pid in a name is not enough: in a container it may be the same at every start.
 */
const beingWritten = new Set<string>();

export function beginWriting(path: string): void {
  beingWritten.add(path);
}

export function endWriting(path: string): void {
  beingWritten.delete(path);
}

/** Whether the process of this host with the pid in the path's name still writes it. */
export function isBeingWritten(path: string, pid: number): boolean {
  return pid === process.pid ? beingWritten.has(path) : isRunning(pid);
}

/** /proc reports CPU time in hundredths of a second. */
const msPerTick = 10;
const pageBytes = 4096;

/** CPU time and memory of another process; undefined if it has ended or the system has no /proc. */
export function readProcessUsage(pid: number) {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'latin1');
    // The second field is the program's name, which may contain blanks and parentheses; these are fields 14, 15 and 24.
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    return {
      cpuMs: msPerTick * (Number(fields[11]) + Number(fields[12])),
      residentBytes: pageBytes * Number(fields[21]),
    };
  } catch {
    return undefined;
  }
}
