/** The folder of one commit in the hub's cache: links to the files, made one by one, and the name that leads to it. */
import { readFile, rename, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { makeFolderSync } from '../core/make-folder.js';
import { makeProcessTag } from '../core/process-tag.js';
import type { RepositoryFolders } from './hub-cache.js';
import type { HubFile } from './hub-client.js';

export interface SnapshotPlace {
  readonly folders: RepositoryFolders;
  readonly commit: string;
}

export function snapshotFolder({ folders, commit }: SnapshotPlace): string {
  return join(folders.snapshots, commit);
}

/** Where its bytes are: in the snapshot, whatever stands there, or under its hash. Of another size they are damaged. */
export async function findFile(place: SnapshotPlace, file: HubFile): Promise<string | undefined> {
  for (const path of [join(snapshotFolder(place), file.path), join(place.folders.blobs, file.hash)]) {
    const status = await stat(path).catch(() => undefined);
    if (status?.isFile() === true && status.size === file.sizeBytes) return path;
  }
  return undefined;
}

/** Relative, as the hub's libraries make them: a cache may be moved. */
export async function linkFile(place: SnapshotPlace, file: HubFile): Promise<void> {
  const link = join(snapshotFolder(place), file.path);
  if ((await findFile(place, file)) === link) return;
  makeFolderSync(dirname(link));
  const blob = join(place.folders.blobs, file.hash);
  await replace(link, (temporary) => symlink(relative(dirname(link), blob), temporary));
}

/** Left alone where it is right: a cache may be readable only. */
export async function writeReference(path: string, commit: string): Promise<void> {
  if ((await readFile(path, 'utf8').catch(() => undefined)) === commit) return;
  makeFolderSync(dirname(path));
  await replace(path, (temporary) => writeFile(temporary, commit));
}

/** By one rename: others see what was there before, or what is new. */
async function replace(path: string, make: (temporary: string) => Promise<void>): Promise<void> {
  const temporary = `${path}.${makeProcessTag()}.tmp`;
  try {
    await make(temporary);
    await rename(temporary, path);
  } catch (failure) {
    await rm(temporary, { force: true });
    throw failure;
  }
}
