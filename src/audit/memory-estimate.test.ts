import { describe, expect, it } from 'vitest';
import type { DraftGraph } from '../draft/drafter.js';
import type { ModelConfiguration } from '../model/configuration.js';
import type { WeightStore } from '../runtime/weights.js';
import type { MemoryUsers, SearchSizes } from './effort.js';
import { estimateMemory } from './effort.js';

const mebibyte = 2 ** 20;
const search: SearchSizes = { search: 'gradient', candidates: 8, starts: 8, suffixLength: 20, window: 64 };
const configuration = {
  ...{ vocabularySize: 32_000, hiddenSize: 1024, intermediateSize: 2816, layerCount: 16 },
} as ModelConfiguration;

function fileOf(size: number): WeightStore {
  const shape = [size / 4, mebibyte];
  const location = { shape, offsetBytes: 0, sizeBytes: size * mebibyte };
  return { kind: 'file', path: 'x.weights', tensors: new Map([['matrix', location]]) };
}

function drafterOf(store: WeightStore | undefined, taps: readonly number[] = []) {
  const graph = store === undefined ? undefined : ({ weights: [store] } as unknown as DraftGraph);
  return { drafter: { graph, taps, parameterCount: mebibyte }, levels: 4 };
}

/** In mebibytes. */
function estimate(users: Partial<MemoryUsers> & { readonly weights: WeightStore }) {
  const target = { weights: users.weights, configuration };
  const found = estimateMemory({ drafters: [], search: undefined, ...users, target });
  return { own: found.memoryBytes / mebibyte, mapped: found.mappedBytes / mebibyte };
}

describe('estimateMemory', () => {
  it('counts packed copies as memory up to the limit, and as mapped above it', () => {
    const none = estimate({ weights: fileOf(0) });
    expect(none.mapped).toBe(0);
    expect(estimate({ weights: fileOf(512) })).toEqual({ own: none.own + 512, mapped: 512 });
    expect(estimate({ weights: fileOf(516) })).toEqual({ own: none.own, mapped: 2 * 516 });
  });

  it('counts weights in memory as memory, and no packed copy of large ones', () => {
    const none = estimate({ weights: fileOf(0) }).own;
    const inMemory = (size: number): WeightStore => ({
      kind: 'memory',
      tensors: new Map([['matrix', { shape: [size / 4, mebibyte], data: new Float32Array() }]]),
    });
    expect(estimate({ weights: inMemory(100) })).toEqual({ own: none + 200, mapped: 0 });
    expect(estimate({ weights: inMemory(600) })).toEqual({ own: none + 600, mapped: 0 });
  });

  it('counts nothing for weights that go from the checkpoint to a device', () => {
    const none = estimate({ weights: fileOf(0) });
    const tensors = new Map([['matrix', { shape: [25, mebibyte], parts: [] }]]);
    expect(estimate({ weights: { kind: 'checkpoint', tensors } })).toEqual(none);
  });

  it('counts every drafter, what it borrows once, and the program with its taps', () => {
    const weights = fileOf(100);
    const alone = estimate({ weights });
    const drafters = [drafterOf(fileOf(20)), drafterOf(fileOf(8))];
    expect(estimate({ weights, drafters })).toEqual({ own: alone.own + 2 * 28, mapped: 128 });
    expect(estimate({ weights, drafters: [drafterOf(weights)] })).toEqual(alone);
    expect(estimate({ weights, drafters: [drafterOf(undefined, [1])] }).own).toBe(alone.own + 100);
  });

  it('adds the widest search, more of it for gradients and for levels of a draft', () => {
    const weights = fileOf(1024);
    const own = (settings: SearchSizes | undefined, drafters = [drafterOf(fileOf(0))]) =>
      estimate({ weights, drafters, search: settings }).own;
    const random = own({ ...search, search: 'random' });
    expect(random).toBeGreaterThan(own(undefined));
    expect(own(search)).toBeGreaterThan(random);
    expect(own(search, [drafterOf(undefined)])).toBeLessThan(own(search));
    expect(own(search, [drafterOf(fileOf(0)), drafterOf(undefined)])).toBe(own(search));
    // Batches are bounded.
    const many = own({ ...search, search: 'random', candidates: 64 });
    expect(own({ ...search, search: 'random', candidates: 512 })).toBe(many);
  });
});
