/**
 * Weights for the runtime, converted once: float32, or the checkpoint's own 16 bits for matrices of large models, of
 * which the runtime keeps a packed copy. A file's name is a hash of the weight files' content, the recipes and the format
 * version, so a changed checkpoint never gets an old file. Files are read-only and replaced, never written again:
 * processes that have mapped an old one keep it. If another program truncates a mapped file, its readers die of SIGBUS.
 *
 * The least recently used files are removed to stay below a limit. Without a usable disk or room, weights stay in memory.
 * Runtimes that read checkpoints bypass the cache (direct-weights.ts).
 */
import { lstat } from 'node:fs/promises';
import { totalmem } from 'node:os';
import { resolve } from 'node:path';
import { formatBytes } from '../../core/number-text.js';
import { makeFolder } from '../../core/durable-files.js';
import { defaultCacheFolder } from '../../core/files.js';
import { describeCause, MistletoeError } from '../../core/errors.js';
import type { Runtime } from '../../runtime/program.js';
import type {
  DerivedFile,
  DerivedRequest,
  FileWeights,
  MemoryWeights,
  PlacePiece,
  WeightStore,
  WeightValues,
} from '../../runtime/weights.js';
import { createDirectWeights } from '../direct-weights.js';
import { bytesOf, type Checkpoint } from '../stored-tensor.js';
import type { ResolvedRecipe, WeightRecipe } from '../weight-recipe.js';
import { assembleWeight, keepHalves, resolveRecipes, streamWeight } from '../weight-recipe.js';
import type { FileOutput } from '../written-folder.js';
import { explainWriting, openFileOutput, StorageFailure, writeWholeFile } from '../written-folder.js';
import { makeRoom, removeLeftovers, trimCache } from './cache-contents.js';
import { checkCacheFile, formatVersion, layOutWeights, recordUse, writeCacheFile } from './cache-file.js';
import { markInUse, readCacheLimit, weightsPath } from './cache-folder.js';
import { hashFile, hashText, identifyFile, requireSameFiles } from './content-hash.js';

export interface CacheOptions {
  readonly cacheFolder?: string | undefined;
  /** Read all of a cache file before it is used, even if its note says that it is correct. */
  readonly verifyCache?: boolean | undefined;
  readonly onNotice?: ((message: string) => void) | undefined;
  /** What the folder may hold; $MISTLETOE_CACHE_LIMIT by default. */
  readonly cacheLimitBytes?: number | undefined;
  /** Memory of the machine; lowered in tests. */
  readonly memoryBytes?: number | undefined;
  /** Opens the cache file for writing; replaced in tests. */
  readonly openOutput?: ((path: string) => Promise<FileOutput>) | undefined;
}

interface WeightOptions extends CacheOptions {
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
  const limitBytes = options.cacheLimitBytes ?? readCacheLimit();
  const place: CachePlace = { ...options, folder, limitBytes, checkpoint: resolve(checkpoint.folder) };
  try {
    await explainWriting(folder, () => makeFolder(folder));
    await removeLeftovers(folder).catch(() => undefined);
    const { dataBytes } = layOutWeights(resolved);
    const isLarge = dataBytes > (options.runtime?.keepsHalvesAbove ?? Infinity);
    return await prepareFile(place, isLarge ? keepHalves(resolved) : resolved);
  } catch (failure) {
    if (!(failure instanceof StorageFailure)) throw failure;
    return prepareMemory(resolved, failure, options);
  }
}

interface CachePlace extends CacheOptions {
  readonly folder: string;
  readonly limitBytes: number;
  /** Folder of the checkpoint, for the note beside each file. */
  readonly checkpoint: string;
}

async function prepareFile(place: CachePlace, recipes: readonly ResolvedRecipe[]): Promise<FileWeights> {
  const sources = [...new Set(recipes.flatMap(({ parts }) => parts.map(({ tensor }) => tensor.file)))].sort();
  const identities = await Promise.all(sources.map(identifyFile));
  const key = await computeKey(place.folder, sources, recipes);
  const { tensors, dataBytes } = layOutWeights(recipes);
  const { path } = await obtainCacheFile(place, {
    key,
    content: 'converted weights',
    sizeBytes: dataBytes,
    async write(placePiece) {
      for (const recipe of recipes) await placePiece(toBytes(recipe));
      await requireSameFiles(sources, identities);
      return { tensors: [...tensors].map(([name, location]) => ({ name, ...location })) };
    },
  });
  const derived = { keep: (request: DerivedRequest) => keepDerived(place, key, request) };
  return { kind: 'file', path, tensors, derived };
}

async function* toBytes(recipe: ResolvedRecipe): AsyncGenerator<Uint8Array> {
  for await (const values of streamWeight(recipe)) yield bytesOf(values);
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
  return hashText(JSON.stringify({ format: formatVersion, contents, recipes: described }));
}

/** A file that a runtime makes of converted weights, such as weights packed for the kernels of one processor. */
async function keepDerived(
  place: CachePlace,
  weights: string, // key of the weights it is made of
  { purpose, sizeBytes, write }: DerivedRequest,
): Promise<DerivedFile | undefined> {
  const key = hashText(JSON.stringify({ format: formatVersion, weights, purpose }));
  try {
    return await obtainCacheFile(place, {
      key,
      content: 'packed weights',
      sizeBytes,
      write: async (placePiece) => ({ table: await write(placePiece) }),
    });
  } catch (failure) {
    const { hint = '' } = failure instanceof MistletoeError ? failure : {};
    const why = describeCause(failure).replace(/\.?$/, '.');
    place.onNotice?.(
      `${why} Without packed weights, decoding with this model is several times slower. ${hint}`,
    );
    return undefined;
  }
}

/** Without the cache. Weights that do not fit into memory are refused: the system would kill the process. */
async function prepareMemory(
  recipes: readonly ResolvedRecipe[],
  { message, hint = '' }: StorageFailure,
  { onNotice, memoryBytes = totalmem() }: CacheOptions,
): Promise<MemoryWeights> {
  const { dataBytes } = layOutWeights(recipes);
  if (dataBytes > memoryBytes) {
    const sizes = `${formatBytes(dataBytes)} of weights do not fit into ${formatBytes(memoryBytes)} of memory`;
    throw new MistletoeError('runtime', `${message.replace(/\.$/, '')}, and ${sizes}.`, { hint });
  }
  onNotice?.(
    `${message} The weights are kept in memory and converted again at the next start. ${hint} MISTLETOE_CACHE sets the cache’s folder.`,
  );
  const tensors = new Map<string, WeightValues>();
  for (const recipe of recipes)
    tensors.set(recipe.name, { shape: recipe.shape, data: await assembleWeight(recipe) });
  return { kind: 'memory', tensors };
}

/** A finished file may be mapped, so it is read-only. */
export const openCacheOutput = (path: string): Promise<FileOutput> => openFileOutput(path, true);

interface CacheFilePlan {
  readonly key: string;
  readonly content: 'converted weights' | 'packed weights';
  readonly sizeBytes: number;
  readonly write: (place: PlacePiece) => Promise<object>;
}

/** The file if it is there and whole; otherwise it is made. */
async function obtainCacheFile(place: CachePlace, plan: CacheFilePlan): Promise<DerivedFile> {
  const { folder, checkpoint, verifyCache = false } = place;
  const path = weightsPath(folder, plan.key);
  // Before the file is checked: from here on no other process removes it.
  await markInUse(folder, plan.key);
  let checked = await checkCacheFile(path, plan.key, verifyCache);
  if (checked.result !== 'whole') {
    const present = await lstat(path).catch(() => undefined);
    if (present?.isDirectory() === true)
      throw new StorageFailure('runtime', `${path} is a folder.`, { hint: 'Move it away.' });
    if (present !== undefined) place.onNotice?.(`The weight cache file ${path} is damaged and is made anew.`);
    let failure = new StorageFailure('runtime', `${path} was damaged at once.`, { hint: 'Check the disk.' });
    try {
      await makeCacheFile(place, plan, path);
    } catch (cause) {
      if (!(cause instanceof StorageFailure)) throw cause;
      failure = cause;
    }
    // Also after a failure: another process may have made the file, and have it open so that it cannot be replaced.
    checked = await checkCacheFile(path, plan.key, verifyCache);
    if (checked.result !== 'whole') throw failure;
  }
  await recordUse(path, { identity: checked.identity, checkpoint });
  return { path, table: checked.footer.table };
}

async function makeCacheFile(
  { folder, limitBytes, checkpoint, openOutput = openCacheOutput }: CachePlace,
  { key, content, sizeBytes, write }: CacheFilePlan,
  path: string,
): Promise<void> {
  if (!(await explainWriting(folder, () => makeRoom(folder, key, sizeBytes, limitBytes)))) {
    const limit = `the ${formatBytes(limitBytes)} that the weight cache in ${folder} may hold`;
    const fault =
      sizeBytes > limitBytes ? `, more than ${limit}` : ` and do not fit into ${limit} beside what is in use`;
    throw new StorageFailure('runtime', `The ${content} take ${formatBytes(sizeBytes)}${fault}.`, {
      hint: 'Set MISTLETOE_CACHE_LIMIT higher, or to none.',
    });
  }
  await writeWholeFile(path, (append) => writeCacheFile(append, key, write), openOutput);
  // Another process may have filled the same room meanwhile.
  if (Number.isFinite(limitBytes)) await trimCache(folder, limitBytes).catch(() => undefined);
  await recordUse(path, { identity: await identifyFile(path).catch(() => ''), checkpoint });
}
