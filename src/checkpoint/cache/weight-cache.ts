/**
 * Weights for the runtime, converted once: float32, or the checkpoint's own 16 bits for matrices of large models, of
 * which the runtime keeps a packed copy.
 *
 * A file's name is a hash of the weight files' content, the recipes and the format version, so a changed checkpoint
 * never gets an old file. Files are written under a temporary name, made read-only and renamed, and never written
 * again: processes that have mapped an old one keep it. If another program truncates a mapped file, its readers die of
 * SIGBUS. A disk that returns other bytes than were written is found by `verifyCache` alone.
 *
 * The least recently used files are removed to stay below a limit, never files in use or of other programs. Without a
 * usable disk or room, weights stay in memory. Runtimes that read checkpoints bypass the cache (direct-weights.ts).
 */
import { createHash } from 'node:crypto';
import { lstat } from 'node:fs/promises';
import { totalmem } from 'node:os';
import { resolve } from 'node:path';
import { formatBytes } from '../../core/number-text.js';
import { defaultCacheFolder, makeFolder } from '../../core/files.js';
import { describeCause, MistletoeError } from '../../core/errors.js';
import type { Runtime } from '../../runtime/program.js';
import type {
  DerivedFile,
  DerivedRequest,
  FileWeights,
  MemoryWeights,
  WeightStore,
  WeightValues,
} from '../../runtime/weights.js';
import { createDirectWeights } from '../direct-weights.js';
import type { Checkpoint } from '../stored-tensor.js';
import type { ResolvedRecipe, WeightRecipe } from '../weight-recipe.js';
import { assembleWeight, keepHalves, resolveRecipes } from '../weight-recipe.js';
import { openFileOutput, writeWholeFile, type Append, type FileOutput } from '../written-folder.js';
import {
  type CacheFooter,
  checkForUse,
  fitsLayout,
  formatVersion,
  layOutWeights,
  measureCacheFile,
  recordUse,
  writeDerived,
  writeWeights,
} from './cache-file.js';
import { markInUse, readCacheLimit, weightsPath } from './cache-folder.js';
import { makeRoom, trimCache } from './cache-removal.js';
import { hashFile, identifyFile, requireSameFiles } from './content-hash.js';

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
  const { path } = await obtainCacheFile(place, {
    key,
    content: 'converted weights',
    sizeBytes: measureCacheFile(key, layout),
    fits: (footer) => fitsLayout(footer, key, layout),
    write: (append) => writeWeights(append, key, recipes),
    confirm: () => requireSameFiles(sources, identities),
  });
  const derived = { keep: (request: DerivedRequest) => keepDerived(place, key, request) };
  return { kind: 'file', path, tensors: layout.tensors, derived };
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
      write: (append) => writeDerived(append, key, write),
    });
    return { path, table: footer.table };
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

/** A finished file may be mapped, so it is read-only. */
export const openCacheOutput = (path: string): Promise<FileOutput> => openFileOutput(path, true);

/** The cache cannot hold the weights. They can still be used from memory. */
class CacheFailure extends Error {
  constructor(
    message: string,
    readonly remedy: string,
    cause?: unknown,
  ) {
    super(message, { cause });
  }
}

function unwritable(folder: string, reason: string, cause?: unknown): CacheFailure {
  return new CacheFailure(
    `The weight cache in ${folder} cannot be written (${reason})`,
    'Set MISTLETOE_CACHE to a folder with room.',
    cause,
  );
}

/** Failures of the disk under the cache become cache failures. */
async function onDisk<Result>(folder: string, action: () => Promise<Result>): Promise<Result> {
  try {
    return await action();
  } catch (cause) {
    throw unwritable(folder, describeCause(cause), cause);
  }
}

interface CachePlace {
  readonly folder: string;
  /** Folder of the checkpoint, for the note beside each file. */
  readonly checkpoint: string;
  readonly limitBytes: number;
  readonly openOutput: (path: string) => Promise<FileOutput>;
  readonly verify: boolean | undefined;
  readonly onNotice: ((message: string) => void) | undefined;
}

interface CacheFilePlan {
  readonly key: string;
  readonly content: 'converted weights' | 'packed weights';
  readonly sizeBytes: number;
  readonly fits: (footer: CacheFooter) => boolean;
  readonly write: (append: Append) => Promise<void>;
  /** Throws if what was written must not be kept. */
  readonly confirm?: (() => Promise<void>) | undefined;
}

/** The file if it is there and whole; otherwise it is made. */
async function obtainCacheFile(
  place: CachePlace,
  plan: CacheFilePlan,
): Promise<{ readonly path: string; readonly footer: CacheFooter }> {
  const { folder, checkpoint, verify } = place;
  const path = weightsPath(folder, plan.key);
  // Before the file is checked: from here on no other process removes it.
  await markInUse(folder, plan.key);
  const check = () => checkForUse(path, plan.fits, verify);
  let usable = await check();
  if (usable === undefined) {
    const present = await lstat(path).catch(() => undefined);
    if (present?.isDirectory() === true) throw unwritable(folder, `${path} is a folder`);
    if (present !== undefined) place.onNotice?.(`The weight cache file ${path} is damaged and is made anew.`);
    let failure: unknown;
    try {
      await claimRoom(place, plan);
      const { openOutput } = place;
      const explain = <Result>(_: string, action: () => Promise<Result>) => onDisk(folder, action);
      await writeWholeFile(path, plan.write, { openOutput, explain, confirm: plan.confirm });
      // Another process may have filled the same room meanwhile.
      if (Number.isFinite(place.limitBytes)) await trimCache(folder, place.limitBytes).catch(() => undefined);
      const identity = await onDisk(folder, () => identifyFile(path));
      await recordUse(path, { identity, checkpoint });
    } catch (cause) {
      if (!(cause instanceof CacheFailure)) throw cause;
      failure = cause;
    }
    // Also after a failure: another process may have made the file, and have it open so that it cannot be replaced.
    usable = await check();
    if (usable === undefined)
      throw failure instanceof Error ? failure : unwritable(folder, `${path} was damaged at once`);
  }
  await recordUse(path, { identity: usable.identity, checkpoint });
  return { path, footer: usable.footer };
}

async function claimRoom(
  { folder, limitBytes }: CachePlace,
  { key, content, sizeBytes }: CacheFilePlan,
): Promise<void> {
  if (await onDisk(folder, () => makeRoom(folder, key, sizeBytes, limitBytes))) return;
  const limit = `the ${formatBytes(limitBytes)} that the weight cache in ${folder} may hold`;
  throw new CacheFailure(
    sizeBytes > limitBytes
      ? `The ${content} take ${formatBytes(sizeBytes)}, more than ${limit}`
      : `The ${content} take ${formatBytes(sizeBytes)} and do not fit into ${limit} beside what is in use`,
    'Set MISTLETOE_CACHE_LIMIT higher, or to none.',
  );
}
