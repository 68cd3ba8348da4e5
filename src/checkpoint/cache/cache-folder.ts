/** The cache's location and size limit, and the names of its files. Files with other names are never removed. */
import { join } from 'node:path';
import { parseBytes } from '../../core/byte-size.js';
import type { Surroundings } from '../../core/default-cache-folder.js';
import { defaultCacheFolder, kernelsFolder } from '../../core/default-cache-folder.js';
import { MistletoeError } from '../../core/errors.js';

export { defaultCacheFolder };
export type { Surroundings };

/** Two models of 8 billion parameters in float32. */
export const defaultCacheLimitBytes = 64e9;

/** $MISTLETOE_CACHE_LIMIT in bytes; infinite where it is `none`. */
export function readCacheLimit(environment: Surroundings['environment'] = process.env): number {
  const text = environment.MISTLETOE_CACHE_LIMIT;
  if (text === undefined || text === '') return defaultCacheLimitBytes;
  const bytes = text === 'none' ? Infinity : parseBytes(text);
  if (bytes !== undefined) return bytes;
  throw new MistletoeError(
    'usage',
    `MISTLETOE_CACHE_LIMIT is ${JSON.stringify(text)}; a size with its unit or none was expected.`,
    { hint: 'Set it to for example 50GB, to none for no limit, or unset it.' },
  );
}

/**
 * `weights` are the cache files, each with a `note` beside it. A `hash` holds the sha256 of a checkpoint file. A
 * `temporary` file is being written or loaded by ONNX Runtime, or was left by a killed process.
 */
export type CacheName =
  | { readonly kind: 'weights' | 'note'; readonly key: string }
  | { readonly kind: 'temporary'; readonly writer: FileWriter | undefined }
  | { readonly kind: 'hash' | 'marks' | 'kernels' | 'foreign' };

/** From the file's name; older versions wrote no host. */
export interface FileWriter {
  readonly pid: number;
  readonly host: string;
}

/** Folder of the marks of running processes (cache-use.ts). */
export const marksFolder = 'in-use';

const weightsName = /^([0-9a-f]{64})\.weights(\.json)?$/;
const hashName = /^[0-9a-f]{32}\.hash\.json$/;
const unfinished = '(?:[0-9a-f]{64}(?:\\.weights\\.json)?|[0-9a-f]{32}\\.hash\\.json)';
const tag = '(\\d+)\\.([0-9a-f]{16})\\.[0-9a-f]{16}'; // core/processes.ts
const temporaryName = new RegExp(`^(?:${unfinished}\\.${tag}\\.tmp|program\\.${tag}\\.(?:onnx|packed))$`);
/** Without the host. */
const olderTemporaryName = new RegExp(
  `^(?:${unfinished}\\.\\d+\\.[0-9a-f]{16}\\.tmp|program-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\\.onnx)$`,
);

export function classifyName(name: string): CacheName {
  const [, key, isNote] = weightsName.exec(name) ?? [];
  if (key !== undefined) return { kind: isNote === undefined ? 'weights' : 'note', key };
  if (hashName.test(name)) return { kind: 'hash' };
  const temporary = temporaryName.exec(name);
  if (temporary !== null) {
    const [, pid = temporary[3], host = temporary[4]!] = temporary; // of the one name or of the other
    return { kind: 'temporary', writer: { pid: Number(pid), host } };
  }
  if (olderTemporaryName.test(name)) return { kind: 'temporary', writer: undefined };
  if (name === kernelsFolder) return { kind: 'kernels' };
  return { kind: name === marksFolder ? 'marks' : 'foreign' };
}

export const weightsPath = (folder: string, key: string): string => join(folder, `${key}.weights`);
