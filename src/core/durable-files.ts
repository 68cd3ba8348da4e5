/**
 * Writes files and folders so that they survive kills and power cuts, and only where they were named: run folders, caches
 * and downloads may hold links that a stranger planted. Files that exist are opened without following links, and only
 * regular files with one name are changed; new files are made exclusively and renamed into place.
 * Only the owner may write to what is made here, whatever the umask; private files are readable by the owner only.
 */
import {
  closeSync,
  constants,
  fstatSync,
  fsyncSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readSync,
  renameSync,
  rmSync,
  type Stats,
  writeFileSync,
} from 'node:fs';
import { type FileHandle, lstat, open, rename, rm } from 'node:fs/promises';
import { dirname, join, relative, sep } from 'node:path';
import { describeCause, MistletoeError } from './errors.js';
import { isFolder, isMissing, openToReadSync } from './files.js';
import { makeProcessTag } from './processes.js';

const modes = {
  file: { shared: 0o644, private: 0o600 },
  folder: { shared: 0o755, private: 0o700 },
} as const;
/** Who may read it: everyone as far as the umask allows, or the owner. */
export type Readers = 'shared' | 'private';

// Windows has neither.
const { O_NOFOLLOW = 0, O_NONBLOCK = 0 } = constants as Partial<typeof constants>;
const careful = constants.O_RDWR | O_NOFOLLOW | O_NONBLOCK;
const flags = {
  new: careful | constants.O_CREAT | constants.O_APPEND | constants.O_EXCL,
  append: careful | constants.O_CREAT | constants.O_APPEND,
  change: careful,
} as const;
export type WriteAccess = keyof typeof flags;

/** Also for reading. The caller closes it. */
export function openToWriteSync(path: string, access: WriteAccess, readers: Readers = 'shared'): number {
  // First, because opening a device or a pipe already has effects.
  if (access !== 'new') refuseLink(path, lstatSync(path, { throwIfNoEntry: false }));
  const file = openSync(path, flags[access], modes.file[readers]);
  try {
    refuseLink(path, fstatSync(file));
    return file;
  } catch (fault) {
    closeSync(file);
    throw fault;
  }
}

export async function openToWrite(
  path: string,
  access: WriteAccess,
  readers: Readers = 'shared',
): Promise<FileHandle> {
  if (access !== 'new') refuseLink(path, await lstat(path).catch(ignoreMissing));
  const file = await open(path, flags[access], modes.file[readers]);
  try {
    refuseLink(path, await file.stat());
    return file;
  } catch (fault) {
    await file.close();
    throw fault;
  }
}

function refuseLink(path: string, status: Stats | undefined): void {
  const fault = status && describeFault(status);
  if (fault === undefined) return;
  throw new MistletoeError('usage', `${path} ${fault}; only regular files with one name are written to.`, {
    hint: 'Remove it, or put a copy of the file itself there.',
  });
}

function describeFault(status: Stats): string | undefined {
  if (status.isSymbolicLink()) return 'is a symbolic link';
  if (!status.isFile()) return 'is not a regular file';
  return status.nlink > 1 ? 'is a hard link' : undefined;
}

function ignoreMissing(cause: unknown): undefined {
  if (!isMissing(cause)) throw cause;
}

/** Refuses a folder with anything but folders and regular files below it: nothing was written like that. */
export function refuseLinksBelow(folder: string): void {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) refuseLinksBelow(path);
    else if (!entry.isFile()) {
      const fault = entry.isSymbolicLink() ? 'a symbolic link' : 'not a regular file';
      throw new MistletoeError('usage', `${path} is ${fault}; a run has only regular files and folders.`, {
        hint: 'It did not come from the run. Remove it, or replace it with a copy of the file.',
      });
    }
  }
}

type Contents = string | Uint8Array;

export interface ReplaceOptions {
  readonly readers?: Readers | undefined;
  /** Without it, a power cut can leave an empty file: for what is checked when it is read, and can be made again. */
  readonly isDurable?: boolean;
}

/**
 * By renaming: other processes see the old file or the new one. A function makes the new file itself, at a path that does
 * not exist yet.
 */
export async function replaceFile(
  path: string,
  make: Contents | ((temporary: string) => Promise<unknown>),
  { readers, isDurable = true }: ReplaceOptions = {},
): Promise<void> {
  const temporary = temporaryPath(path);
  try {
    if (typeof make === 'function') await make(temporary);
    else {
      const file = await openToWrite(temporary, 'new', readers);
      try {
        await file.writeFile(make);
        if (isDurable) await file.sync();
      } finally {
        await file.close();
      }
    }
    await rename(temporary, path);
  } catch (failure) {
    await rm(temporary, { force: true }).catch(() => undefined);
    throw failure;
  }
  if (isDurable) syncFolder(dirname(path));
}

export function replaceFileSync(
  path: string,
  make: Contents | ((temporary: string) => void),
  { readers, isDurable = true }: ReplaceOptions = {},
): void {
  const temporary = temporaryPath(path);
  try {
    if (typeof make === 'function') make(temporary);
    else writeNewFileSync(temporary, make, { readers, isDurable });
    renameSync(temporary, path);
  } catch (failure) {
    removeIfPossible(temporary);
    throw failure;
  }
  if (isDurable) syncFolder(dirname(path));
}

export function writeNewFileSync(
  path: string,
  contents: Contents,
  { readers, isDurable = true }: ReplaceOptions = {},
): void {
  writeAndClose(openToWriteSync(path, 'new', readers), (file) => {
    writeFileSync(file, contents);
    if (isDurable) fsyncSync(file);
  });
}

/** Appends, and with `isDurable` returns only once the text is on the disk. */
export function appendFileSync(path: string, text: string, { isDurable }: { isDurable: boolean }): void {
  const isNew = lstatSync(path, { throwIfNoEntry: false }) === undefined;
  writeAndClose(openToWriteSync(path, 'append'), (file) => {
    writeFileSync(file, text);
    if (isDurable) fsyncSync(file);
  });
  if (isNew) syncFolder(dirname(path));
}

/** For the owner of a file that exists: to cut or to sync it. */
export function changeFileSync(path: string, change: (file: number) => void): void {
  writeAndClose(openToWriteSync(path, 'change'), change);
}

const copiedBytes = 4 * 2 ** 20;

/** A new file with the contents of a regular one. */
export function copyFileSync(from: string, to: string): void {
  const source = openSource(from);
  try {
    writeAndClose(openToWriteSync(to, 'new'), (file) => {
      const buffer = Buffer.allocUnsafeSlow(copiedBytes);
      for (let length = 1; length > 0;) {
        length = readSync(source, buffer);
        writeFileSync(file, buffer.subarray(0, length));
      }
      fsyncSync(file);
    });
  } finally {
    closeSync(source);
  }
}

function openSource(path: string): number {
  try {
    return openToReadSync(path);
  } catch (cause) {
    throw new MistletoeError('usage', `${path} cannot be read: ${describeCause(cause)}.`, {
      hint: 'Put a file there that you may read.',
      cause,
    });
  }
}

function writeAndClose(file: number, write: (file: number) => void): void {
  try {
    write(file);
  } finally {
    closeSync(file);
  }
}

const temporaryPath = (path: string): string => `${path}.${makeProcessTag()}.tmp`;
/** Of `replaceFile`. */
export const isTemporary = (name: string): boolean => /\.\d+\.[0-9a-f]{16}\.[0-9a-f]{16}\.tmp$/.test(name);

/** What killed processes were writing, in a folder that this process alone has open. */
export function removeTemporaries(folder: string): void {
  for (const entry of readdirSync(folder, { withFileTypes: true }))
    if (isTemporary(entry.name) && !entry.isDirectory()) removeIfPossible(join(folder, entry.name));
}

function removeIfPossible(path: string): void {
  try {
    rmSync(path, { force: true });
  } catch {
    // It stays, and does no harm.
  }
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

/**
 * Makes a folder and its parents. Node's own recursive mkdir never returns in folders like /proc, which exist and report
 * ENOENT for anything made in them.
 */
export function makeFolderSync(path: string, readers: Readers = 'shared'): void {
  try {
    makeOneFolder(path, readers);
  } catch (cause) {
    if (isFolder(path)) return;
    const parent = dirname(path);
    if (!isMissing(cause) || parent === path) throw cause;
    makeFolderSync(parent, readers);
    try {
      makeOneFolder(path, readers);
    } catch (again) {
      if (!isFolder(path)) throw again; // else another process was quicker
    }
  }
}

/** Fails where there is something already. */
export function makeOneFolder(path: string, readers: Readers = 'shared'): void {
  mkdirSync(path, { mode: modes.folder[readers] });
}

/** For the owner alone. */
export function makeFolder(path: string): Promise<void> {
  return Promise.resolve().then(() => {
    makeFolderSync(path, 'private');
  });
}

/** Makes `path` below `root`. The user named the root, which may be a link; below it, links are refused. */
export function makeFolderBelow(root: string, path: string, readers: Readers = 'shared'): void {
  makeFolderSync(root, readers);
  let folder = root;
  for (const name of relative(root, path).split(sep)) {
    folder = join(folder, name);
    try {
      makeOneFolder(folder, readers);
    } catch (cause) {
      const status = lstatSync(folder, { throwIfNoEntry: false });
      if (status?.isDirectory() === true) continue;
      if (status?.isSymbolicLink() !== true) throw cause;
      throw new MistletoeError(
        'usage',
        `${folder} is a symbolic link; files are only written to folders of ${root} itself.`,
        { hint: 'Put a folder there, or name the folder that the link leads to.' },
      );
    }
  }
}
