/**
 * Weights for the runtime, converted once: float32, or the checkpoint's own 16 bits for matrices of large models, of
 * which the runtime keeps a packed copy.
 *
 * - A file's name is a hash of its sources: the content of the weight files, the recipes and the format version. A
 *   changed checkpoint never gets an old cache file.
 * - A file is written under a temporary name, synced, made read-only and renamed, so it is complete or absent. Two
 *   processes that convert at the same time do the work twice. A finished file is never written again: it is replaced by
 *   renaming and removed by unlinking, and processes that have mapped the old one keep it. If another program truncates
 *   a mapped file, the process that reads it dies of SIGBUS; that cannot be caught.
 * - The footer holds the sha256 of all data. A large file is used without reading it only if a note beside it says that
 *   this file, by size, times and inode, was correct before (cache-check.ts). A disk that returns other bytes than were
 *   written is found by `verifyCache` alone.
 * - The least recently used files are removed to keep the folder below a limit (cache-removal.ts), but never files that
 *   a running process uses (cache-folder.ts), nor files of other programs.
 * - The cache is optional. Without a usable disk or without room, weights stay in memory. A runtime that reads
 *   checkpoints itself bypasses it (direct-weights.ts).
 */
import { createHash } from 'node:crypto';
import { totalmem } from 'node:os';
import { resolve } from 'node:path';
import { formatBytes } from '../../core/byte-size.js';
import { defaultCacheFolder } from '../../core/default-cache-folder.js';
import { describeCause, MistletoeError } from '../../core/errors.js';
import { makeFolder } from '../../core/files.js';
import type { Runtime } from '../../runtime/program.js';
import type {
  DerivedFile,
  DerivedFiles,
  DerivedRequest,
  FileWeights,
  MemoryWeights,
  WeightStore,
  WeightValues,
} from '../../runtime/weights.js';
import type { CacheOutput } from './cache-file.js';
import {
  fitsLayout,
  formatVersion,
  layOutWeights,
  measureCacheFile,
  openCacheOutput,
  readTable,
  writeCacheFile,
  writeDerivedFile,
} from './cache-file.js';
import { readCacheLimit } from './cache-folder.js';
import { removeLeftovers } from './cache-removal.js';
import type { CachePlace } from './cache-writing.js';
import { CacheFailure, obtainCacheFile, onDisk, unwritable } from './cache-writing.js';
import { hashFile, identifyFile, requireSameFiles } from './content-hash.js';
import { createDirectWeights } from '../direct-weights.js';
import type { Checkpoint } from '../stored-tensor.js';
import type { ResolvedRecipe, WeightRecipe } from '../weight-recipe.js';
import { assembleWeight, keepHalves, resolveRecipes } from '../weight-recipe.js';

export interface CacheOptions {
  readonly cacheFolder?: string | undefined;
  /** Read all of a cache file before it is used, even if its note says that it is correct. */
  readonly verifyCache?: boolean | undefined;
  readonly onNotice?: ((message: string) => void) | undefined;
  /** What the folder may hold; $MISTLETOE_CACHE_LIMIT by default. */
  readonly cacheLimitBytes?: number | undefined;
  /** From which size on files are not read at every start; lowered in tests. */
  readonly largeBytes?: number | undefined;
  /** Memory of the machine; lowered in tests. */
  readonly memoryBytes?: number | undefined;
  /** Opens the cache file for writing; replaced in tests. */
  readonly openOutput?: ((path: string) => Promise<CacheOutput>) | undefined;
}

export interface WeightOptions extends CacheOptions {
  /** The runtime that will read the weights. One that reads checkpoints needs no cache. */
  readonly runtime?: Pick<Runtime, 'readsCheckpoints' | 'keepsHalvesAbove'> | undefined;
}

export async function prepareWeights(
  checkpoint: Checkpoint,
  recipes: readonly WeightRecipe[],
  options: WeightOptions = {},
): Promise<WeightStore> {
  const resolved = resolveRecipes(checkpoint, recipes);
  if (options.runtime?.readsCheckpoints === true) return createDirectWeights(resolved);
  // Absolute, because programs name it relative to other folders.
  const folder = resolve(options.cacheFolder ?? defaultCacheFolder());
  const place: CachePlace = {
    folder,
    checkpoint: resolve(checkpoint.folder),
    limitBytes: options.cacheLimitBytes ?? readCacheLimit(),
    openOutput: options.openOutput ?? openCacheOutput,
    largeBytes: options.largeBytes,
    verify: options.verifyCache,
    onNotice: options.onNotice,
  };
  try {
    await onDisk(folder, () => makeFolder(folder));
    const { dataBytes } = layOutWeights(resolved);
    const isLarge = dataBytes > (options.runtime?.keepsHalvesAbove ?? Infinity);
    const kept = isLarge ? keepHalves(resolved) : resolved;
    return await prepareFile(place, kept);
  } catch (failure) {
    if (!(failure instanceof CacheFailure)) throw failure;
    return prepareMemory(resolved, failure, options);
  }
}

async function prepareFile(place: CachePlace, recipes: readonly ResolvedRecipe[]): Promise<FileWeights> {
  const { folder } = place;
  const sources = [...new Set(recipes.flatMap(({ parts }) => parts.map(({ tensor }) => tensor.file)))].sort();
  const identities = await Promise.all(sources.map(identifyFile));
  const key = await computeKey(folder, sources, recipes);
  const layout = layOutWeights(recipes);
  await removeLeftovers(folder);
  const { path } = await obtainCacheFile(place, {
    key,
    content: 'converted weights',
    sizeBytes: measureCacheFile(key, layout),
    fits: (footer) => fitsLayout(footer, key, layout),
    write: (output) => writeCacheFile(output, key, recipes),
    confirm: () => requireSameFiles(sources, identities),
  });
  const keep: DerivedFiles['keep'] = (request) => keepDerived(place, key, request);
  return { kind: 'file', path, tensors: layout.tensors, derived: { keep } };
}

/** A file that a runtime makes of converted weights, such as weights packed for the kernels of one processor. */
async function keepDerived(
  place: CachePlace,
  weights: string, // key of the weights it is made of
  { purpose, sizeBytes, write }: DerivedRequest,
): Promise<DerivedFile | undefined> {
  const key = hashText(JSON.stringify({ format: formatVersion, weights, purpose }));
  try {
    const { path, footer } = await obtainCacheFile(place, {
      key,
      content: 'packed weights',
      sizeBytes,
      fits: (found) => found.key === key,
      write: (output) => writeDerivedFile(output, key, write),
    });
    return { path, table: readTable(footer) };
  } catch (failure) {
    const { message, remedy } =
      failure instanceof CacheFailure ? failure : unwritable(place.folder, describeCause(failure));
    place.onNotice?.(
      `${message}; without packed weights in it, decoding with this model is several times slower. ${remedy}`,
    );
    return undefined;
  }
}

const hashText = (text: string): string => createHash('sha256').update(text).digest('hex');

async function computeKey(
  folder: string,
  sources: readonly string[],
  recipes: readonly ResolvedRecipe[],
): Promise<string> {
  const contents: string[] = [];
  for (const source of sources) contents.push(await hashFile(source, folder));
  // Which file a part comes from needs its place in the list: two files may hold tensors of one name.
  const described = recipes.map(({ name, shape, parts, dtype }) => ({
    name,
    shape,
    dtype, // absent for float32, as in the keys of earlier versions
    parts: parts.map(({ tensor, transpose }) => [
      tensor.name,
      tensor.shape,
      transpose,
      sources.indexOf(tensor.file),
    ]),
  }));
  return hashText(JSON.stringify({ format: formatVersion, contents, recipes: described }));
}

/** Without the cache. Weights that do not fit into memory are refused: the system would kill the process. */
async function prepareMemory(
  recipes: readonly ResolvedRecipe[],
  { message, remedy }: CacheFailure,
  { onNotice, memoryBytes = totalmem() }: CacheOptions,
): Promise<MemoryWeights> {
  const { dataBytes } = layOutWeights(recipes);
  if (dataBytes > memoryBytes) {
    throw new MistletoeError(
      'runtime',
      `${message}, and ${formatBytes(dataBytes)} of weights do not fit into ${formatBytes(memoryBytes)} of memory.`,
      { hint: remedy },
    );
  }
  onNotice?.(`${message}; the weights are kept in memory and converted again at the next start. ${remedy}`);
  const tensors = new Map<string, WeightValues>();
  for (const recipe of recipes) {
    tensors.set(recipe.name, { shape: recipe.shape, data: await assembleWeight(recipe) });
  }
  return { kind: 'memory', tensors };
}
