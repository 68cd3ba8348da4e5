/**
 * Reads small files that users name. Type and size are checked before opening: a pipe blocks, a device never ends, and a
 * file of gigabytes is a mistake.
 */
import { mkdirSync, readFileSync, statSync, type Stats } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { fileLimits } from './limits.js';

/** Default limit, also for text from a pipe. */
export const maxTextBytes = fileLimits.promptSet;

/** Throws the system's error, or a phrase about the file's type or size. */
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

export function isFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false;
  }
}
