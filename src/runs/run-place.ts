/** Where a new run may go: an empty folder, or the next free number, of which each process gets its own. */
import { existsSync, mkdirSync, readdirSync, rmdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { describeCause, MistletoeError } from '../core/errors.js';
import { quoteWord } from '../core/display-paths.js';
import { isLockFile } from './run-lock.js';
import { configFile } from './run-units.js';
import type { RunCommand } from './run-writes.js';
import { codeOf } from './run-writes.js';

export function refuseUsedFolder(path: string, command: RunCommand = 'audit'): void {
  if (!existsSync(path)) return;
  if (existsSync(join(path, configFile))) {
    throw new MistletoeError('usage', `${path} already holds a run.`, {
      hint: `Go on with it by --resume ${quoteWord(path)}, or choose another folder.`,
    });
  }
  // What a run leaves that was killed before it began is no obstacle.
  const isLeftover = (name: string): boolean => name === `${configFile}.part` || isLockFile(name);
  if (!statSync(path).isDirectory() || !readdirSync(path).every(isLeftover)) {
    throw new MistletoeError('usage', `${path} already exists and is no run of mistletoe ${command}.`, {
      hint: 'Choose another folder, or an empty one.',
    });
  }
}

/** mkdir is the arbiter: it succeeds for one process alone. */
export function claimNumber(parent: string, name: string): string {
  for (let number = 1; ; number++) {
    const path = join(parent, `${name}-${number}`);
    try {
      mkdirSync(path);
      return path;
    } catch (cause) {
      if (codeOf(cause) !== 'EEXIST') throw cause;
    }
  }
}

export function removeIfEmpty(path: string): void {
  try {
    rmdirSync(path);
  } catch {
    // Something is in it after all.
  }
}

/** Before the run has begun there is nothing to go on with: another folder is the remedy. */
export function asCreation<Result>(path: string, create: () => Result): Result {
  try {
    return create();
  } catch (failure) {
    const cause = failure instanceof MistletoeError && failure.code === 'runtime' ? failure.cause : failure;
    if (codeOf(cause) === undefined) throw failure;
    throw new MistletoeError('usage', `The folder ${path} cannot be created: ${describeCause(cause)}.`, {
      hint: 'Choose a folder that can be written.',
      cause,
    });
  }
}
