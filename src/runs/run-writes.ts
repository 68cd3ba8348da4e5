/** Writes a run's files, with readable errors. */
import { existsSync, fsyncSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import { appendFileSync, changeFileSync, replaceFileSync } from '../core/durable-files.js';
import { codeOf, describeCause, MistletoeError } from '../core/errors.js';
import { isMissing, quoteWord, readBoundedFileSync } from '../core/files.js';
import { fileLimits } from '../core/limits.js';

/** Commands whose runs are folders that can be resumed. */
export type RunCommand = 'audit' | 'train' | 'harden';

/** Appends, and with `durable` returns only once the line is on the disk. */
export function appendText(
  path: string,
  text: string,
  { durable = false, command = 'audit' }: { durable?: boolean; command?: RunCommand } = {},
): void {
  explainFailure(path, command, () => {
    appendFileSync(path, text, { isDurable: durable });
  });
}

export function syncFile(path: string, command: RunCommand = 'audit'): void {
  if (!existsSync(path)) return;
  explainFailure(path, command, () => {
    changeFileSync(path, fsyncSync);
  });
}

/** The file is complete or absent. */
export function writeAtomically(path: string, contents: string, command: RunCommand = 'audit'): void {
  explainFailure(path, command, () => {
    replaceFileSync(path, contents);
  });
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
    return readBoundedFileSync(path, fileLimits.auditResult).toString('utf8');
  } catch (cause) {
    if (isMissing(cause)) return undefined;
    throw new MistletoeError('usage', `${path} cannot be read: ${describeCause(cause)}.`, {
      hint: 'Restore the file, or start a new run in another folder.',
      cause,
    });
  }
}
