import { mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, beforeEach } from 'vitest';
import type { WeightStore } from '../../../src/runtime/weights.js';
import { openCheckpoint } from '../../../src/checkpoint/open-checkpoint.js';
import type { CacheOptions } from '../../../src/checkpoint/cache/weight-cache.js';
import { prepareWeights } from '../../../src/checkpoint/cache/weight-cache.js';
import type { WeightRecipe } from '../../../src/checkpoint/weight-recipe.js';
import type { WritableTensors } from './encode-values.js';
import { makeTemporaryFolder } from './temporary-folder.js';
import { writeSafetensors } from './write-safetensors.js';

/** A checkpoint and the place of a cache for its weights, new before each test of the file and gone after it. */
export class CachedModel {
  /** Of both folders. */
  parent = '';

  constructor(
    readonly recipes: readonly WeightRecipe[],
    tensors: WritableTensors,
  ) {
    let remove: () => void;
    beforeEach(() => {
      ({ path: this.parent, remove } = makeTemporaryFolder());
      mkdirSync(this.folder);
      this.write(tensors);
    });
    afterEach(() => {
      remove();
    });
  }

  get folder(): string {
    return join(this.parent, 'model');
  }

  /** Not there before something is cached. */
  get cacheFolder(): string {
    return join(this.parent, 'cache');
  }

  get file(): string {
    return join(this.folder, 'model.safetensors');
  }

  write(tensors: WritableTensors): void {
    writeSafetensors(this.file, tensors);
  }

  async prepare(options: CacheOptions = {}): Promise<WeightStore> {
    const { cacheFolder } = this;
    return prepareWeights(await openCheckpoint(this.folder), this.recipes, { cacheFolder, ...options });
  }

  cacheNames(ending: string): string[] {
    return readdirSync(this.cacheFolder).filter((name) => name.endsWith(ending));
  }
}

export function pathOf(store: WeightStore): string {
  if (store.kind !== 'file') throw new Error('expected a file');
  return store.path;
}

/** File systems count time in ticks: two writes within one tick have the same time. Returns in the tick after `path`'s. */
export async function waitForFileTick(path: string): Promise<void> {
  const probe = `${path}.tick`;
  const timeOf = (file: string): bigint => statSync(file, { bigint: true }).ctimeNs;
  do {
    await nextTurn();
    writeFileSync(probe, 'x');
  } while (timeOf(probe) <= timeOf(path));
  rmSync(probe);
}
