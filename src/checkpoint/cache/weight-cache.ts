/**
 * Weights for the runtime, converted once: float32, or, where a runtime keeps a packed copy of large models anyway,
 * matrices in the checkpoint's own 16 bits. The theory of the cache:
 *
 * - A file's name is a hash of what it was made from: the content of the weight files, the recipes and the format
 *   version. A changed checkpoint never meets an old cache.
 * - It is written under a name of its own, synced, made read-only and renamed, so it is there whole or not at all; two
 *   processes that convert at the same time merely do the work twice. A file that has its name is never written again:
 *   it is replaced by renaming and removed by unlinking, and whoever has mapped the old one keeps it. Only a stranger
 *   who cuts a mapped file short can still end the process that reads it (SIGBUS); no program can catch that for us.
 * - Its footer holds the sha256 of all data. A start believes a large file without reading it only if a note beside it
 *   says that this very file, by size, times and inode, was right before (cache-note.ts, cache-check.ts). What that
 *   cannot see is a disk that returns other bytes than were written; `verifyCache` reads everything.
 * - The folder is kept below a limit by removing what was used longest ago (cache-removal.ts), never what a running
 *   process uses (cache-use.ts). Nothing in the folder is believed without a check, and other people's files are left.
 * - The cache is never needed. Where there is no usable disk or no room, the weights stay in memory; a runtime that
 *   reads checkpoints itself goes past it altogether (direct-weights.ts).
 */
import { createHash } from 'node:crypto';
import { lstat } from 'node:fs/promises';
import { totalmem } from 'node:os';
import { resolve } from 'node:path';
import { formatBytes } from '../../core/byte-size.js';
import { MistletoeError } from '../../core/errors.js';
import { makeFolder } from '../../core/files.js';
import type { Runtime } from '../../runtime/program.js';
import type { FileWeights, MemoryWeights, WeightStore, WeightValues } from '../../runtime/weights.js';
import { checkForUse, recordUse } from './cache-check.js';
import { CacheFailure, makeCacheFile, onDisk, unwritable } from './cache-writing.js';
import { createDerivedFiles } from './derived-files.js';
import type { CacheFooter, CacheOutput } from './cache-file.js';
import {
  fitsLayout,
  formatVersion,
  layOutWeights,
  measureCacheFile,
  openCacheOutput,
  writeCacheFile,
} from './cache-file.js';
import { defaultCacheFolder, readCacheLimit, weightsPath } from './cache-folder.js';
import { removeRemains } from './cache-removal.js';
import { markInUse } from './cache-use.js';
import { hashFile, identifyFile, requireSameFiles } from './content-hash.js';
import { createDirectWeights } from '../direct-weights.js';
import type { Checkpoint } from '../stored-tensor.js';
import type { ResolvedRecipe, WeightRecipe } from '../weight-recipe.js';
import { assembleWeight, keepHalves, resolveRecipes } from '../weight-recipe.js';

export interface CacheOptions {
  readonly cacheFolder?: string;
  /** Read all of a cache file before it is used, whatever is known of it. */
  readonly verifyCache?: boolean;
  readonly onNotice?: (message: string) => void;
  /** What the folder may hold; $MISTLETOE_CACHE_LIMIT by default. */
  readonly cacheLimitBytes?: number;
  /** From which size on files are not read at every start; lowered in tests. */
  readonly largeBytes?: number;
  /** Memory of the machine; lowered in tests. */
  readonly memoryBytes?: number;
  /** Opens the cache file for writing; replaced in tests. */
  readonly openOutput?: (path: string) => Promise<CacheOutput>;
}

export interface WeightOptions extends CacheOptions {
  /** Whoever will read the weights; one that reads checkpoints gets theirs, and no cache is touched. */
  readonly runtime?: Pick<Runtime, 'readsCheckpoints' | 'keepsHalvesAbove'>;
}

export async function prepareWeights(
  checkpoint: Checkpoint,
  recipes: readonly WeightRecipe[],
  options: WeightOptions = {},
): Promise<WeightStore> {
  const resolved = resolveRecipes(checkpoint, recipes);
  if (options.runtime?.readsCheckpoints === true) return createDirectWeights(resolved);
  // Absolute, because what is mapped from it is named relative to other places.
  const folder = resolve(options.cacheFolder ?? defaultCacheFolder());
  const limitBytes = options.cacheLimitBytes ?? readCacheLimit();
  try {
    await onDisk(folder, () => makeFolder(folder));
    const { dataBytes } = layOutWeights(resolved);
    const isLarge = dataBytes > (options.runtime?.keepsHalvesAbove ?? Infinity);
    const kept = isLarge ? keepHalves(resolved) : resolved;
    return await prepareFile(checkpoint.folder, kept, { ...options, folder, limitBytes });
  } catch (failure) {
    if (!(failure instanceof CacheFailure)) throw failure;
    return prepareMemory(resolved, failure, options);
  }
}

interface FileOptions extends CacheOptions {
  readonly folder: string;
  readonly limitBytes: number;
}

async function prepareFile(
  checkpointFolder: string,
  recipes: readonly ResolvedRecipe[],
  { folder, limitBytes, largeBytes, verifyCache, onNotice, openOutput = openCacheOutput }: FileOptions,
): Promise<FileWeights> {
  const sources = [...new Set(recipes.flatMap(({ parts }) => parts.map(({ tensor }) => tensor.file)))].sort();
  const identities = await Promise.all(sources.map(identifyFile));
  const key = await computeKey(folder, sources, recipes);
  const layout = layOutWeights(recipes);
  const path = weightsPath(folder, key);
  // Before the file is looked at: from here on nobody else removes it.
  await markInUse(folder, key);
  await removeRemains(folder);
  const check = async (): Promise<string | undefined> => {
    const fits = (footer: CacheFooter): boolean => fitsLayout(footer, key, layout);
    return (await checkForUse(path, { fits, largeBytes, verify: verifyCache }))?.identity;
  };
  let identity = await check();
  if (identity === undefined) {
    const present = await lstat(path).catch(() => undefined);
    if (present?.isDirectory() === true) throw unwritable(folder, `${path} is a folder`);
    if (present !== undefined) onNotice?.(`The weight cache file ${path} is damaged and is made anew.`);
    try {
      await makeCacheFile({
        ...{ folder, key, content: 'converted weights', limitBytes, openOutput },
        sizeBytes: measureCacheFile(key, layout),
        write: (output) => writeCacheFile(output, key, recipes),
        confirm: () => requireSameFiles(sources, identities),
      });
      identity = await onDisk(folder, () => identifyFile(path));
    } catch (failure) {
      // Where an open file cannot be replaced, losing a race ends here, with the winner's file in place.
      identity = failure instanceof CacheFailure ? await check() : undefined;
      if (identity === undefined) throw failure;
    }
  }
  const checkpoint = resolve(checkpointFolder);
  await recordUse(path, { identity, checkpoint });
  const derived = createDerivedFiles({
    ...{ folder, weightsKey: key, checkpoint, limitBytes, openOutput },
    ...{ largeBytes, verify: verifyCache, onNotice },
  });
  return { kind: 'file', path, tensors: layout.tensors, derived };
}

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
  const description = JSON.stringify({ format: formatVersion, contents, recipes: described });
  return createHash('sha256').update(description).digest('hex');
}

/** Without the cache. What cannot fit is refused here; the system would end the process without a word. */
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
