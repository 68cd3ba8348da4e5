/** Creates the folder of a new run: an empty folder, or the next free number of a name, locked by this process. */
import { existsSync, readdirSync, rmdirSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { codeOf, describeCause, MistletoeError } from '../core/errors.js';
import { isTemporary, makeFolderSync, makeOneFolder, syncFolder } from '../core/durable-files.js';
import { quoteWord } from '../core/files.js';
import { type RunLock, isLockFile, lockRun } from './run-lock.js';
import { configFile } from './run-units.js';
import { type RunCommand, writeAtomically } from './run-writes.js';

/** A folder of its own, or the next free number of a name. */
export type RunPlace = string | { readonly parent: string; readonly name: string };

export interface OpenedRun {
  readonly path: string;
  readonly lock: RunLock;
}

/** `config` is the text of config.json. Refuses a folder with anything in it: a run never mixes with other files. */
export function createRun(place: RunPlace, config: string, command: RunCommand): OpenedRun {
  if (typeof place === 'string') return fillFolder(place, config, command);
  const { parent, name } = place;
  const path = asCreation(parent, () => {
    makeFolderSync(parent);
    return claimNumber(parent, name);
  });
  try {
    return fillFolder(path, config, command);
  } catch (cause) {
    removeIfEmpty(path);
    throw cause;
  }
}

function fillFolder(path: string, config: string, command: RunCommand): OpenedRun {
  refuseUsedFolder(path, command);
  return asCreation(path, () => {
    makeFolderSync(path);
    syncFolder(dirname(path));
    const lock = lockRun(path);
    try {
      refuseUsedFolder(path, command); // again: another process may have used it before this one got the lock
      writeAtomically(join(path, configFile), config, command);
    } catch (cause) {
      lock.release();
      throw cause;
    }
    return { path, lock };
  });
}

export function refuseUsedFolder(path: string, command: RunCommand = 'audit'): void {
  if (!existsSync(path)) return;
  // One listing decides: another process may be writing to the folder.
  const names = statSync(path).isDirectory() ? readdirSync(path) : undefined;
  if (names?.includes(configFile) === true) {
    throw new MistletoeError('usage', `${path} already holds a run.`, {
      hint: `Resume it with --resume ${quoteWord(path)}, or choose another folder.`,
    });
  }
  // A run killed before it started leaves these behind.
  const isLeftover = (name: string): boolean =>
    isLockFile(name) || (name.startsWith(`${configFile}.`) && isTemporary(name));
  if (names?.every(isLeftover) !== true) {
    throw new MistletoeError('usage', `${path} already exists and is not a run of mistletoe ${command}.`, {
      hint: 'Choose another folder, or an empty one.',
    });
  }
}

/** mkdir decides: it succeeds for only one process. */
function claimNumber(parent: string, name: string): string {
  for (let number = 1; ; number++) {
    const path = join(parent, `${name}-${number}`);
    try {
      makeOneFolder(path);
      return path;
    } catch (cause) {
      if (codeOf(cause) !== 'EEXIST') throw cause;
    }
  }
}

function removeIfEmpty(path: string): void {
  try {
    rmdirSync(path);
  } catch {
    // It is not empty after all.
  }
}

/** Before a run has started there is nothing to resume, so the hint is to choose another folder. */
function asCreation<Result>(path: string, create: () => Result): Result {
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
