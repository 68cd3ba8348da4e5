/**
 * Compiled kernels on disk, which saves seconds at the next start. A file's name is a hash of the source and
 * everything that the compiler's output depends on; its first bytes are the sha256 of the rest, so damaged files are
 * compiled again. The hash does not stop forgery, so folders and files that other users own or can write are not
 * used. If the folder cannot be used, kernels are compiled every time.
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
/** The most recently used files are kept; a file has some hundred kilobytes. */
const usualMost = 256;

export class KernelStore {
  constructor(
    private readonly folder: string,
    private readonly most = usualMost,
  ) {}

  /**
   * Finds compiled code or compiles it.
   * @param identity everything that the result depends on besides the source
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
      // The disk is full, or the folder belongs to someone else.
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
    // Keep it.
  }
}

/** Whether only this user and root can have written it. Windows has no such modes. */
function isPrivate({ uid, mode }: Stats): boolean {
  const own = process.getuid?.();
  return own === undefined || ((uid === own || uid === 0) && (mode & 0o022) === 0);
}

/** Also marks the file as used. */
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
    // Its own buffer, as the driver requires.
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
