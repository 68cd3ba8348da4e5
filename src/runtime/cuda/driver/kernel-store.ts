/**
 * Compiled kernels on disk, so that a later start need not compile them again: seconds for a model and its drafter. A file's
 * name is a hash of the source and of all that the compiler's answer depends on, and its first bytes are the sha256 of the
 * rest: a damaged one is compiled anew. The hash stops damage, not forgery, and kernels run on the GPU: a folder or file
 * that another user owns or can write is not used. Nothing here can fail a run: where the folder cannot be used, kernels are
 * compiled.
 */
import { createHash } from 'node:crypto';
import type { Stats } from 'node:fs';
import {
  closeSync,
  constants,
  fstatSync,
  futimesSync,
  lstatSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { kernelFileName } from '../../../core/default-cache-folder.js';
import { makeFolderSync } from '../../../core/files.js';
import { makeProcessTag } from '../../../core/processes.js';

const format = 'mistletoe kernels 1';
const hashBytes = 32;
/** Files that are kept, those that were used last: some hundred kilobytes each. */
const usualMost = 256;

export class KernelStore {
  constructor(
    private readonly folder: string,
    private readonly most = usualMost,
  ) {}

  /**
   * What was compiled of this before, or is now.
   * @param identity all that the result depends on besides the source
   */
  find(identity: string, source: string, compile: () => Uint8Array): Uint8Array {
    const key = createHash('sha256')
      .update(JSON.stringify([format, identity, source]))
      .digest('hex');
    const path = join(this.folder, `${key}.cubin`);
    const known = this.isTrusted() ? read(path) : undefined;
    if (known !== undefined) return known;
    const code = compile();
    this.keep(path, code);
    return code;
  }

  private isTrusted(): boolean {
    try {
      const status = lstatSync(this.folder);
      return status.isDirectory() && isPrivate(status);
    } catch {
      return false;
    }
  }

  private keep(path: string, code: Uint8Array): void {
    const temporary = `${path}.${makeProcessTag()}.tmp`;
    try {
      makeFolderSync(this.folder, 0o700);
      if (!this.isTrusted()) return;
      writeFileSync(temporary, Buffer.concat([sha256(code), code]), { flag: 'wx', mode: 0o600 });
      renameSync(temporary, path);
      this.trim();
    } catch {
      // A full disk, or a folder that is somebody else's.
      remove(temporary);
    }
  }

  private trim(): void {
    const names = readdirSync(this.folder).filter((name) => kernelFileName.test(name));
    if (names.length <= this.most) return;
    const files = names.map((name) => join(this.folder, name));
    const used = files.map((path) => ({ path, at: statSync(path).mtimeMs })).sort((a, b) => a.at - b.at);
    for (const { path } of used.slice(0, names.length - this.most)) remove(path);
  }
}

function remove(path: string): void {
  try {
    rmSync(path, { force: true });
  } catch {
    // Then it stays.
  }
}

/** Whether only this user and root can have written it. Windows has no such modes to check. */
function isPrivate({ uid, mode }: Stats): boolean {
  const own = process.getuid?.();
  return own === undefined || ((uid === own || uid === 0) && (mode & 0o022) === 0);
}

/** The code of a file that is whole and private; it counts as used now. */
function read(path: string): Uint8Array | undefined {
  let file: number | undefined;
  try {
    file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW);
    const status = fstatSync(file);
    if (!status.isFile() || !isPrivate(status)) return undefined;
    const bytes = readFileSync(file);
    const code = bytes.subarray(hashBytes);
    if (!sha256(code).equals(bytes.subarray(0, hashBytes))) return undefined;
    touch(file);
    // Alone in its memory, as the driver wants it.
    return Uint8Array.from(code);
  } catch {
    return undefined;
  } finally {
    if (file !== undefined) closeSync(file);
  }
}

function touch(file: number): void {
  try {
    const now = new Date();
    futimesSync(file, now, now);
  } catch {
    // A read-only cache keeps its dates.
  }
}

const sha256 = (bytes: Uint8Array): Buffer => createHash('sha256').update(bytes).digest();
