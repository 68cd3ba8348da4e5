/**
 * Files that a process writes for itself carry its tag, PID.HOST.RANDOM, in their names: whoever finds one that was
 * left behind can tell that its writer is dead.
 */
import { createHash, randomBytes } from 'node:crypto';
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
