/** Writes a run's files so that they survive a kill and a power cut, with readable errors. */
import { closeSync, existsSync, fsyncSync, openSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import { codeOf, describeCause, MistletoeError } from '../core/errors.js';
import { quoteWord } from '../core/files.js';

/** Commands whose runs are folders that can be resumed. */
export type RunCommand = 'audit' | 'train' | 'harden';

/** Appends, and with `durable` returns only once the line is on the disk. */
export function appendText(
  path: string,
  text: string,
  { durable = false, command = 'audit' }: { durable?: boolean; command?: RunCommand } = {},
): void {
  explainFailure(path, command, () => {
    const isNew = !existsSync(path);
    const file = openSync(path, 'a');
    try {
      writeFileSync(file, text);
      if (durable) fsyncSync(file);
    } finally {
      closeSync(file);
    }
    if (isNew) syncFolder(dirname(path));
  });
}

export function syncFile(path: string, command: RunCommand = 'audit'): void {
  if (!existsSync(path)) return;
  explainFailure(path, command, () => {
    const file = openSync(path, 'r+');
    try {
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
  });
}

/** Writes to a temporary name and renames it: the file is complete or absent. */
export function writeAtomically(path: string, contents: string, command: RunCommand = 'audit'): void {
  explainFailure(path, command, () => {
    const part = `${path}.part`;
    const file = openSync(part, 'w');
    try {
      writeFileSync(file, contents);
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
    renameSync(part, path);
    syncFolder(dirname(path));
  });
}

/** A new name is durable once its folder is synced, too. */
export function syncFolder(path: string): void {
  let folder: number;
  try {
    folder = openSync(path, 'r');
  } catch {
    return; // Windows opens no folders, and needs no such thing
  }
  try {
    fsyncSync(folder);
  } catch {
    // Some network file systems refuse this; the file itself is written.
  } finally {
    closeSync(folder);
  }
}

const remedies: Readonly<Record<string, string>> = {
  ENOSPC: 'Make room on the disk',
  EDQUOT: 'Make room in your quota',
  EACCES: 'Make the folder writable',
  EPERM: 'Make the folder writable',
  EROFS: 'Make the disk writable, or copy the folder to one that is',
};

/** A full disk or a missing permission stops the run; finished work is kept. */
export function explainFailure<Result>(path: string, command: RunCommand, write: () => Result): Result {
  try {
    return write();
  } catch (cause) {
    const code = codeOf(cause);
    if (code === undefined) throw cause;
    const folder = dirname(path);
    if (!existsSync(folder)) throw lostFolder(path, cause);
    throw new MistletoeError(
      'runtime',
      `${basename(path)} of the run in ${folder} could not be written: ${describeCause(cause)}; what was finished is safe.`,
      {
        hint: `${remedies[code] ?? 'Fix that'}, then resume with: mistletoe ${command} --resume ${quoteWord(folder)}`,
        cause,
      },
    );
  }
}

/** Someone deleted or moved the folder while the run wrote to it: there is nothing to resume. */
export function lostFolder(path: string, cause: unknown): MistletoeError {
  return new MistletoeError(
    'runtime',
    `${basename(path)} could not be written: the folder ${dirname(path)} no longer exists, and what the run had saved there is lost.`,
    {
      hint: 'If the folder was moved, resume the run from there; otherwise start a new run. Leave its folder in place while it runs.',
      cause,
    },
  );
}

export function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch (cause) {
    if (codeOf(cause) === 'ENOENT') return undefined;
    throw cause;
  }
}
