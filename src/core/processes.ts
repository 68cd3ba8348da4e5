/**
 * Files that a process writes for itself carry its tag, PID.HOST.RANDOM, in their names: whoever finds one that was
 * left behind can tell that its writer is dead.
 */
import { createHash, randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';

/** A new one at each call. */
export function makeProcessTag(): string {
  return `${process.pid}.${hostTag()}.${randomBytes(8).toString('hex')}`;
}

export function hostTag(): string {
  return createHash('sha256').update(hostname()).digest('hex').slice(0, 16);
}

/** Of this host; others cannot be asked. */
export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (cause) {
    return cause instanceof Error && 'code' in cause && cause.code === 'EPERM'; // it lives, and is somebody else's
  }
}

/** CPU time and memory of another process. */
interface ProcessUsage {
  readonly cpuMs: number;
  readonly residentBytes: number;
}

/** Linux counts CPU time in hundredths of a second in /proc, whatever its own clock. */
const msPerTick = 10;
const pageBytes = 4096;

/** Undefined where the process has ended, or the system has no /proc. */
export function readProcessUsage(pid: number): ProcessUsage | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'latin1');
    // The second field is the program's name, which may hold blanks and brackets; these are fields 14, 15 and 24.
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    return {
      cpuMs: msPerTick * (Number(fields[11]) + Number(fields[12])),
      residentBytes: pageBytes * Number(fields[21]),
    };
  } catch {
    return undefined;
  }
}
