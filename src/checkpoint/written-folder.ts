/**
 * Replaces a checkpoint's folder as a whole. The new one is written as NAME.PID.HOST.RANDOM.new; then the old one is
 * renamed to .old and the new one takes its place. If the process is killed between the two renames, `restoreFolder`
 * puts the old one back. The next write removes leftovers of dead processes.
 */
import { readdir, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { codeOf, describeCause, MistletoeError } from '../core/errors.js';
import {
  makeFolderSync,
  makeOneFolder,
  openToWrite,
  replaceFile,
  syncFolder,
} from '../core/durable-files.js';
import { beginWriting, endWriting, hostTag, isBeingWritten, makeProcessTag } from '../core/processes.js';
import { maximumTransferBytes } from './binary-file.js';
import { describingNames } from './checkpoint-folder.js';
import { quote } from './stored-tensor.js';

/** The file being written; replaced in tests that need a full disk. */
export interface FileOutput {
  write(bytes: Uint8Array): Promise<void>;
  finish(): Promise<void>;
  abandon(): Promise<void>;
}

export type Append = (bytes: Uint8Array) => Promise<void>;

/**
 * Writes under a temporary name, syncs and renames, so that the file is complete or absent. `openOutput` opens a file
 * that does not exist yet.
 */
export async function writeWholeFile(
  path: string,
  fill: (append: Append) => Promise<void>,
  openOutput: (path: string) => Promise<FileOutput> = openFileOutput,
): Promise<void> {
  const write = async (temporary: string): Promise<void> => {
    const output = await openOutput(temporary);
    try {
      await fill((bytes) => output.write(bytes));
      await output.finish();
    } catch (failure) {
      await output.abandon();
      throw failure;
    }
  };
  await explainWriting(path, () => replaceFile(path, write));
}

export async function openFileOutput(path: string, isReadOnly = false): Promise<FileOutput> {
  const handle = await openToWrite(path, 'new', isReadOnly ? 'private' : 'shared');
  return {
    async write(bytes) {
      for (let written = 0; written < bytes.byteLength;) {
        const length = Math.min(bytes.byteLength - written, maximumTransferBytes);
        written += (await handle.write(bytes, written, length)).bytesWritten;
      }
    },
    async finish() {
      // Some file systems have no modes.
      if (isReadOnly) await handle.chmod(0o400).catch(() => undefined);
      await handle.sync();
      await handle.close();
    },
    async abandon() {
      await handle.close().catch(() => undefined);
    },
  };
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

/** A folder cannot be written, or has no room. */
export class StorageFailure extends MistletoeError {}

/** Turns disk errors into one sentence; other errors are not wrapped. */
export async function explainWriting<Result>(
  path: string,
  write: () => Result | Promise<Result>,
): Promise<Result> {
  try {
    return await write();
  } catch (cause) {
    const code = codeOf(cause);
    // Node's own codes (ERR_…) are faults of a program, not of a disk.
    if (code === undefined || code.startsWith('ERR_')) throw cause;
    throw new StorageFailure(
      'runtime',
      `${basename(path)} could not be written to ${dirname(path)}: ${describeCause(cause)}.`,
      { hint: remedies[code] ?? 'Choose another folder, or mend that and try again.', cause },
    );
  }
}

/** Refuses a folder with other files: they would be lost. */
export async function writeWholeFolder(path: string, fill: (folder: string) => Promise<void>): Promise<void> {
  const place = resolve(path);
  await restoreFolder(place);
  await requireReplaceable(place);
  const tagged = `${place}.${makeProcessTag()}`;
  const [fresh, aside] = [`${tagged}.new`, `${tagged}.old`];
  beginWriting(tagged);
  try {
    await explainWriting(place, () => {
      makeFolderSync(dirname(place));
      makeOneFolder(fresh);
    });
    await fill(fresh);
    syncFolder(fresh);
    await explainWriting(place, () => stepIn(place, fresh, aside));
  } catch (failure) {
    await rm(fresh, { recursive: true, force: true }).catch(() => undefined);
    if (!(failure instanceof MistletoeError) || !failure.message.includes(fresh)) throw failure;
    const { code, message, hint, cause } = failure;
    throw new MistletoeError(code, message.replaceAll(fresh, place), { hint, cause });
  } finally {
    endWriting(tagged);
  }
  syncFolder(dirname(place));
  await rm(aside, { recursive: true, force: true }).catch(() => undefined);
}

async function stepIn(place: string, fresh: string, aside: string): Promise<void> {
  const isThere = await rename(place, aside).then(
    () => true,
    async (cause: unknown) => {
      if (await exists(place)) throw cause;
      return false;
    },
  );
  try {
    await rename(fresh, place);
  } catch (cause) {
    if (isThere) await rename(aside, place);
    throw cause;
  }
}

/** Restores a folder that a killed process had moved aside, and removes its unfinished one. */
export async function restoreFolder(path: string): Promise<void> {
  const place = resolve(path);
  for (const { remains, kind, isForeign } of await listPartialFiles(place)) {
    if (kind === 'old' && !(await exists(place))) await explainWriting(place, () => rename(remains, place));
    else if (!isForeign) await rm(remains, { recursive: true, force: true }).catch(() => undefined);
  }
}

interface PartialFile {
  readonly remains: string;
  readonly kind: 'old' | 'new';
  readonly isForeign: boolean;
}

async function listPartialFiles(place: string): Promise<readonly PartialFile[]> {
  const names = await readdir(dirname(place)).catch(() => []);
  const opening = `${basename(place)}.`;
  const form = /^((\d+)\.([0-9a-f]{16})\.[0-9a-f]{16})\.(old|new)$/;
  return names.flatMap((name): PartialFile[] => {
    const [, tag, pid, host, kind] =
      form.exec(name.startsWith(opening) ? name.slice(opening.length) : '') ?? [];
    if (tag === undefined) return [];
    const isForeign = host !== hostTag();
    if (!isForeign && isBeingWritten(`${place}.${tag}`, Number(pid))) return [];
    return [{ remains: join(dirname(place), name), kind: kind as PartialFile['kind'], isForeign }];
  });
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}

async function requireReplaceable(place: string): Promise<void> {
  const status = await stat(place).catch(() => undefined);
  if (status === undefined) return;
  const hint = 'Choose a folder that does not exist yet.';
  if (!status.isDirectory()) {
    throw new MistletoeError('usage', `${place} is a file; a folder for a drafter was expected.`, { hint });
  }
  const entries = await explainWriting(place, () => readdir(place, { withFileTypes: true }));
  const other = entries.find((entry) => entry.isDirectory() || !isOfCheckpoint(entry.name));
  if (other === undefined) return;
  throw new MistletoeError(
    'usage',
    `${place} holds ${quote(other.name)}, which is no part of a drafter, and would be replaced as a whole.`,
    { hint },
  );
}

const isOfCheckpoint = (name: string): boolean =>
  describingNames.includes(name) || /\.(safetensors|bin|pt)(\.index\.json)?$/.test(name);
