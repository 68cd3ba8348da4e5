/**
 * Float32 weights for the runtime, converted once. The cache file's name is a hash of what it was made from: the
 * content of the weight files, the recipes and the format version; a changed checkpoint never meets an old cache.
 * The file is written under a name of its own, synced and renamed, so it is there whole or not at all, and two
 * processes that convert at the same time merely do the work twice. Without a usable disk the weights stay in memory.
 */
import { createHash, randomBytes } from 'node:crypto';
import { access, mkdir, rename, rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { describeCause } from '../core/errors.js';
import type { FileWeights, MemoryWeights, WeightStore, WeightValues } from '../runtime/weights.js';
import type { CacheOutput } from './cache-file.js';
import {
  formatVersion,
  layOutWeights,
  openCacheOutput,
  verifyCacheFile,
  writeCacheFile,
} from './cache-file.js';
import { defaultCacheFolder, removeAbandonedFiles } from './cache-folder.js';
import { hashFile, identifyFile } from './content-hash.js';
import type { Checkpoint } from './stored-tensor.js';
import { refuse } from './stored-tensor.js';
import type { ResolvedRecipe, WeightRecipe } from './weight-recipe.js';
import { assembleWeight, resolveRecipes } from './weight-recipe.js';

export interface CacheOptions {
  readonly cacheFolder?: string;
  readonly onNotice?: (message: string) => void;
  /** Opens the cache file for writing; replaced in tests. */
  readonly openOutput?: (path: string) => Promise<CacheOutput>;
}

export async function prepareWeights(
  checkpoint: Checkpoint,
  recipes: readonly WeightRecipe[],
  options: CacheOptions = {},
): Promise<WeightStore> {
  const resolved = resolveRecipes(checkpoint, recipes);
  // Absolute, because what is mapped from it is named relative to other places.
  const folder = resolve(options.cacheFolder ?? defaultCacheFolder());
  try {
    await onDisk(() => mkdir(folder, { recursive: true, mode: 0o700 }));
    return await prepareFile(folder, resolved, options);
  } catch (failure) {
    if (!(failure instanceof DiskFailure)) throw failure;
    options.onNotice?.(
      `The weight cache in ${folder} cannot be written (${failure.message}); the weights are kept in memory and ` +
        'converted again at the next start. Set MISTLETOE_CACHE to a folder with room.',
    );
    return loadIntoMemory(resolved);
  }
}

async function prepareFile(
  folder: string,
  recipes: readonly ResolvedRecipe[],
  { onNotice, openOutput = openCacheOutput }: CacheOptions,
): Promise<FileWeights> {
  const sources = [...new Set(recipes.flatMap(({ parts }) => parts.map(({ tensor }) => tensor.file)))].sort();
  const identities = await Promise.all(sources.map(identifyFile));
  const key = await computeKey(folder, sources, recipes);
  const layout = layOutWeights(recipes);
  const path = join(folder, `${key}.weights`);
  const store: FileWeights = { kind: 'file', path, tensors: layout.tensors };
  if (await verifyCacheFile(path, key, layout)) return store;

  if (await exists(path)) onNotice?.(`The weight cache file ${path} is damaged and is made anew.`);
  await onDisk(() => removeAbandonedFiles(folder));
  const temporary = join(folder, `${key}.${process.pid}.${randomBytes(8).toString('hex')}.tmp`);
  try {
    await writeTemporary(temporary, { key, recipes, openOutput });
    const after = await Promise.all(sources.map(identifyFile));
    if (after.join() !== identities.join()) {
      throw refuse(
        `the weights of ${sources.join(', ')} changed while they were read`,
        'Wait until they are fully written, then try again.',
      );
    }
    await onDisk(() => rename(temporary, path));
  } catch (failure) {
    await rm(temporary, { force: true }).catch(() => undefined);
    // Where an open file cannot be replaced, losing a race ends here, with the winner's file in place.
    if (!(failure instanceof DiskFailure) || !(await verifyCacheFile(path, key, layout))) throw failure;
  }
  return store;
}

interface Writing {
  readonly key: string;
  readonly recipes: readonly ResolvedRecipe[];
  readonly openOutput: (path: string) => Promise<CacheOutput>;
}

async function writeTemporary(path: string, { key, recipes, openOutput }: Writing): Promise<void> {
  const output = await onDisk(() => openOutput(path));
  try {
    const guarded: CacheOutput = {
      write: (bytes) => onDisk(() => output.write(bytes)),
      finish: () => onDisk(() => output.finish()),
      abandon: () => output.abandon(),
    };
    await writeCacheFile(guarded, key, recipes);
  } catch (failure) {
    await output.abandon();
    throw failure;
  }
}

async function computeKey(
  folder: string,
  sources: readonly string[],
  recipes: readonly ResolvedRecipe[],
): Promise<string> {
  const contents: string[] = [];
  for (const source of sources) contents.push(await hashFile(source, folder));
  // Which file a part comes from needs its place in the list: two files may hold tensors of one name.
  const described = recipes.map(({ name, shape, parts }) => ({
    name,
    shape,
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

async function loadIntoMemory(recipes: readonly ResolvedRecipe[]): Promise<MemoryWeights> {
  const tensors = new Map<string, WeightValues>();
  for (const recipe of recipes) {
    tensors.set(recipe.name, { shape: recipe.shape, data: await assembleWeight(recipe) });
  }
  return { kind: 'memory', tensors };
}

/** Tells a disk that cannot take the cache from a checkpoint that cannot be read. */
class DiskFailure extends Error {}

async function onDisk<Result>(action: () => Promise<Result>): Promise<Result> {
  try {
    return await action();
  } catch (cause) {
    throw new DiskFailure(describeCause(cause), { cause });
  }
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
