/**
 * Reads small files that users name. Type and size are checked before opening: a pipe blocks, a device never ends, and a
 * file of gigabytes is a mistake.
 */
import { closeSync, constants, fstatSync, openSync, readSync, type Stats, statSync } from 'node:fs';
import { open, stat } from 'node:fs/promises';
import { basename, isAbsolute, join, relative } from 'node:path';
import { fileLimits } from './limits.js';
import { codeOf, describeCause, MistletoeError } from './errors.js';
import { parseJsonText } from './json-text.js';
import { homedir } from 'node:os';

const readOnly = constants.O_RDONLY | ((constants as Partial<typeof constants>).O_NONBLOCK ?? 0); // Windows has none

/** Default limit, also for text from a pipe. */
export const maxTextBytes = fileLimits.promptSet;

/** Throws the system's error, or a phrase about the file's type or size. */
export async function readBoundedFile(path: string, maxBytes: number = maxTextBytes): Promise<Buffer> {
  requireRegular(await stat(path)); // first, because opening a device or a pipe already has effects
  const file = await open(path, readOnly);
  try {
    const bytes = allocateFor(await file.stat(), maxBytes);
    let filled = 0;
    for (let length = 1; length > 0; filled += length)
      length = (await file.read(bytes, filled, bytes.byteLength - filled)).bytesRead;
    return bytes.subarray(0, filled);
  } finally {
    await file.close();
  }
}

export function readBoundedFileSync(path: string, maxBytes: number = maxTextBytes): Buffer {
  const file = openToReadSync(path);
  try {
    const bytes = allocateFor(fstatSync(file), maxBytes);
    let filled = 0;
    for (let length = 1; length > 0; filled += length)
      length = readSync(file, bytes, filled, bytes.byteLength - filled, null);
    return bytes.subarray(0, filled);
  } finally {
    closeSync(file);
  }
}

/** What a file grows by meanwhile is not read: some files of /proc never end. */
function allocateFor(status: Stats, maxBytes: number): Buffer {
  requireRegular(status);
  if (status.size > maxBytes)
    throw new Error(`it has ${status.size} bytes, and ${maxBytes} are the most that is read`);
  return Buffer.allocUnsafeSlow(status.size);
}

/** The caller closes it. Links are followed: models' folders hold some. Throws a phrase about anything but a regular file. */
export function openToReadSync(path: string): number {
  requireRegular(statSync(path)); // first, because opening a device or a pipe already has effects
  const file = openSync(path, readOnly);
  try {
    requireRegular(fstatSync(file));
    return file;
  } catch (fault) {
    closeSync(file);
    throw fault;
  }
}

function requireRegular(status: Stats): void {
  if (!status.isFile()) throw new Error('it is not a regular file');
}

export function isMissing(cause: unknown): boolean {
  return codeOf(cause) === 'ENOENT';
}

export function isFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false;
  }
}

// Paths and command-line words in files that a user may share.
/**
 * A report must not reveal its author's folders. An absolute path inside the current folder becomes relative, any
 * other is cut to its last part, and a relative path stays as typed.
 */
export function shortenPath(path: string): string {
  if (!isAbsolute(path)) return path;
  const inside = relative('.', path);
  if (inside === '') return '.';
  return inside.startsWith('..') || isAbsolute(inside) ? `.../${basename(path)}` : inside;
}

/** One word of a command line that can be pasted into a shell. */
export function quoteWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/** The file's text without a byte order mark, or undefined when there is no such file; a model's folder may be a GGUF file. */
export async function readTextFile(path: string, maxBytes: number): Promise<string | undefined> {
  let bytes: Buffer;
  try {
    bytes = await readBoundedFile(path, maxBytes);
  } catch (cause) {
    if (['ENOENT', 'ENOTDIR'].includes(codeOf(cause) ?? '')) return undefined;
    throw new MistletoeError('text', `${path} cannot be read: ${describeCause(cause)}.`, {
      hint: 'Give a file that you may read, of the size that such files have.',
      cause,
    });
  }
  return decodeText(bytes, path);
}

export function decodeText(bytes: Uint8Array, place: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (cause) {
    throw new MistletoeError('text', `${place} is not UTF-8 text.`, {
      hint: 'Convert it to UTF-8, or fetch it again if it was cut short.',
      cause,
    });
  }
}

export function parseJson(text: string, place: string): unknown {
  try {
    return parseJsonText(text);
  } catch (cause) {
    throw new MistletoeError('text', `${place} is not valid JSON: ${describeCause(cause)}.`, {
      hint: 'The file may be truncated or edited by hand; compare it with its origin.',
      cause,
    });
  }
}

// The folder for files that Mistletoe can make again.
export interface HostEnvironment {
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly platform: NodeJS.Platform;
  readonly home: string;
}

/** $MISTLETOE_CACHE, else the platform's cache folder. */
export function defaultCacheFolder(
  { environment, platform, home }: HostEnvironment = {
    environment: process.env,
    platform: process.platform,
    home: homedir(),
  },
): string {
  const own = environment.MISTLETOE_CACHE;
  if (own !== undefined && own !== '') return own;
  const shared = environment.XDG_CACHE_HOME;
  if (shared !== undefined && isAbsolute(shared)) return join(shared, 'mistletoe'); // the XDG standard ignores relative paths
  if (platform === 'win32') {
    return join(environment.LOCALAPPDATA ?? join(home, 'AppData', 'Local'), 'mistletoe', 'cache');
  }
  return platform === 'darwin'
    ? join(home, 'Library', 'Caches', 'mistletoe')
    : join(home, '.cache', 'mistletoe');
}

/** Compiled kernels have their own folder and names. */
export const kernelsFolder = 'kernels';
export const kernelFileName = /^[0-9a-f]{64}\.cubin$/;
