import { mkdirSync, statSync } from 'node:fs';
import { mkdir, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { isMissing } from './bounded-file.js';

/**
 * Makes a folder with all above it, for its owner alone. Node's own recursive mkdir never ends where a folder exists
 * and still says that it does not once something is to be made in it, as /proc does.
 */
export async function makeFolder(path: string): Promise<void> {
  try {
    await mkdir(path, { mode: 0o700 });
  } catch (cause) {
    if (await isFolder(path)) return;
    const parent = dirname(path);
    if (!isMissing(cause) || parent === path) throw cause;
    await makeFolder(parent);
    await mkdir(path, { mode: 0o700 }).catch(async (again: unknown) => {
      if (!(await isFolder(path))) throw again; // else another process was quicker
    });
  }
}

async function isFolder(path: string): Promise<boolean> {
  return stat(path).then(
    (status) => status.isDirectory(),
    () => false,
  );
}

/** The same at once, with the rights that the user's folders have unless a mode is given. */
export function makeFolderSync(path: string, mode = 0o777): void {
  try {
    mkdirSync(path, { mode });
  } catch (cause) {
    if (isFolderSync(path)) return;
    const parent = dirname(path);
    if (!isMissing(cause) || parent === path) throw cause;
    makeFolderSync(parent, mode);
    try {
      mkdirSync(path, { mode });
    } catch (again) {
      if (!isFolderSync(path)) throw again;
    }
  }
}

function isFolderSync(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false;
  }
}
