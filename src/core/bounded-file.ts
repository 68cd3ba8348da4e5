/**
 * Small files whose names come from outside, read whole. They are asked before they are opened: opening a pipe waits
 * for ever, a device never ends, and a file of gigabytes is not what was meant.
 */
import type { Stats } from 'node:fs';
import { readFileSync, statSync } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import { fileLimits } from './limits.js';

/** What a text may have that is read from a pipe, and a file that nothing says more of. */
export const mostTextBytes = fileLimits.promptSet;

/** Throws what the system says, or a phrase that says what the file is instead. */
export async function readBoundedFile(path: string, mostBytes: number = mostTextBytes): Promise<Buffer> {
  requireBounded(await stat(path), mostBytes);
  return readFile(path);
}

export function readBoundedFileSync(path: string, mostBytes: number = mostTextBytes): Buffer {
  requireBounded(statSync(path), mostBytes);
  return readFileSync(path);
}

function requireBounded(status: Stats, mostBytes: number): void {
  if (!status.isFile()) throw new Error('it is not a regular file');
  if (status.size > mostBytes)
    throw new Error(`it has ${status.size} bytes, and ${mostBytes} are the most that is read`);
}

export function isMissing(cause: unknown): boolean {
  return cause instanceof Error && 'code' in cause && cause.code === 'ENOENT';
}
