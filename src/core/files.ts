/**
 * Small files whose names come from outside, read whole. They are asked before they are opened: opening a pipe waits
 * for ever, a device never ends, and a file of gigabytes is not what was meant.
 */
import type { Stats } from 'node:fs';
import { mkdirSync, readFileSync, statSync } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { fileLimits } from './limits.js';

/** What a text may have that is read from a pipe, and a file that nothing says more of. */
export const maxTextBytes = fileLimits.promptSet;

/** Throws what the system says, or a phrase that says what the file is instead. */
export async function readBoundedFile(path: string, maxBytes: number = maxTextBytes): Promise<Buffer> {
  requireBounded(await stat(path), maxBytes);
  return readFile(path);
}

export function readBoundedFileSync(path: string, maxBytes: number = maxTextBytes): Buffer {
  requireBounded(statSync(path), maxBytes);
  return readFileSync(path);
}

function requireBounded(status: Stats, maxBytes: number): void {
  if (!status.isFile()) throw new Error('it is not a regular file');
  if (status.size > maxBytes)
    throw new Error(`it has ${status.size} bytes, and ${maxBytes} are the most that is read`);
}

export function isMissing(cause: unknown): boolean {
  return cause instanceof Error && 'code' in cause && cause.code === 'ENOENT';
}

/**
 * Makes a folder and its parents, with the usual permissions unless a mode is given. Node's own recursive mkdir never
 * returns in folders like /proc, which exist and report ENOENT for anything made in them.
 */
export function makeFolderSync(path: string, mode = 0o777): void {
  try {
    mkdirSync(path, { mode });
  } catch (cause) {
    if (isFolder(path)) return;
    const parent = dirname(path);
    if (!isMissing(cause) || parent === path) throw cause;
    makeFolderSync(parent, mode);
    try {
      mkdirSync(path, { mode });
    } catch (again) {
      if (!isFolder(path)) throw again; // else another process was quicker
    }
  }
}

/** The same for the owner alone. */
export function makeFolder(path: string): Promise<void> {
  return Promise.resolve().then(() => {
    makeFolderSync(path, 0o700);
  });
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}
