/**
 * A file that is there whole or not at all: written under a name of its own, synced, renamed. What the disk refuses is
 * told in one sentence, and nothing half-written stays.
 */
import { open, rename, rm } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { describeCause, MistletoeError } from '../core/errors.js';
import { makeProcessTag } from '../core/process-tag.js';
import { errnoOf } from './binary-file.js';

/** Where the bytes go; tests put a full disk here. */
export interface FileOutput {
  write(bytes: Uint8Array): Promise<void>;
  /** After this the bytes are on the disk. */
  finish(): Promise<void>;
  /** Gives up; must not throw. */
  abandon(): Promise<void>;
}

export interface WriteOptions {
  /** Opens a file that does not exist yet; replaced in tests. */
  readonly openOutput?: (path: string) => Promise<FileOutput>;
}

export type Append = (bytes: Uint8Array) => Promise<void>;

export async function writeWholeFile(
  path: string,
  fill: (append: Append) => Promise<void>,
  { openOutput = openFileOutput }: WriteOptions = {},
): Promise<void> {
  const temporary = `${path}.${makeProcessTag()}.tmp`;
  try {
    const output = await explainWriting(path, () => openOutput(temporary));
    try {
      await fill((bytes) => explainWriting(path, () => output.write(bytes)));
      await explainWriting(path, () => output.finish());
    } catch (failure) {
      await output.abandon();
      throw failure;
    }
    await explainWriting(path, () => rename(temporary, path));
  } catch (failure) {
    await rm(temporary, { force: true }).catch(() => undefined);
    throw failure;
  }
  await syncFolder(dirname(path));
}

export async function openFileOutput(path: string): Promise<FileOutput> {
  const handle = await open(path, 'wx');
  return {
    write: (bytes) => handle.appendFile(bytes),
    async finish() {
      await handle.sync();
      await handle.close();
    },
    async abandon() {
      await handle.close().catch(() => undefined);
    },
  };
}

/** A new name is safe once its folder is on the disk, too; some systems neither need nor know that. */
export async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r').catch(() => undefined);
  await folder?.sync().catch(() => undefined);
  await folder?.close();
}

const remedies: Readonly<Record<string, string>> = {
  ENOSPC: 'Make room on the disk, or write to another one.',
  EDQUOT: 'Make room in your quota, or write to another disk.',
  EFBIG: 'The file system takes no file of that size: write to another disk.',
  EACCES: 'Make the folder writable, or choose another one.',
  EPERM: 'Make the folder writable, or choose another one.',
  EROFS: 'The disk is read-only: choose a folder on another one.',
  ENOENT: 'The folder is gone: make it again, or choose another one.',
  ENOTDIR: 'A file stands where a folder is needed: choose another folder.',
  EEXIST: 'A file stands where a folder is needed: choose another folder.',
};

/** For what only the disk can refuse; what else is thrown passes unchanged. */
export async function explainWriting<Result>(path: string, write: () => Promise<Result>): Promise<Result> {
  try {
    return await write();
  } catch (cause) {
    const code = errnoOf(cause);
    if (code === undefined || cause instanceof MistletoeError) throw cause;
    throw new MistletoeError(
      'runtime',
      `${basename(path)} could not be written to ${dirname(path)}: ${describeCause(cause)}.`,
      { hint: remedies[code] ?? 'Choose another folder, or mend that and try again.', cause },
    );
  }
}
