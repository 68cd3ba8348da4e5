import { chmodSync, readdirSync, readFileSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { useOwnSessions } from '../../../test/support/shared-sessions.js';
import { createRandom } from '../../core/random.js';
import { symbol } from '../../graph/dimension.js';
import { contract, matmul } from '../../graph/operations/contraction.js';
import { add } from '../../graph/operations/elementwise.js';
import { input, weight } from '../../graph/tensor.js';
import { createOnnxRuntime } from '../../runtime/onnx/onnx-runtime.js';
import { type NamedTensors, type NamedValues, float32, floatsOf } from '../../runtime/program.js';
import type { WeightStore } from '../../runtime/weights.js';
import type { FileOutput } from '../written-folder.js';
import { recordCheck } from './cache-file.js';
import { clearCache, describeCache, verifyCache } from './cache-contents.js';
import { identifyFile } from './content-hash.js';
import { CachedModel, pathOf, waitForFileTick } from '../../../test/support/checkpoint/cached-model.js';
import { type CacheOptions, openCacheOutput } from './weight-cache.js';

useOwnSessions();

const random = createRandom('packed weights');
const draw = (count: number) => Float32Array.from({ length: count }, () => random.next() - 0.5);
const shapes = { straight: [64, 96], turned: [96, 64], bias: [96] };
const tensorOf = (shape: readonly number[]) => ({
  ...{ dtype: 'F32' as const, shape },
  values: draw(shape.reduce((product, size) => product * size, 1)),
});
const recipes = Object.entries(shapes).map(([name, shape]) => ({
  name,
  shape,
  parts: [{ tensor: name, shape }],
}));

const n = symbol('n');
const x = input('x', [n, 64]);
const outputs: NamedTensors = {
  straight: matmul(x, weight('straight', [64, 96])),
  biased: add(matmul(x, weight('straight', [64, 96])), weight('bias', [96])),
  turned: contract(x, weight('turned', [96, 64]), 'row inner, column inner -> row column', 0.5),
};
const inputs: NamedValues = { x: float32(draw(3 * 64), [3, 64]) };

const model = new CachedModel(recipes, {
  straight: tensorOf(shapes.straight),
  turned: tensorOf(shapes.turned),
  bias: tensorOf(shapes.bias),
});

async function prepare(options: CacheOptions = {}): Promise<{ store: WeightStore; notices: string[] }> {
  const notices: string[] = [];
  const onNotice = (message: string) => notices.push(message);
  const store = await model.prepare({ onNotice, ...options });
  return { store, notices };
}

interface RunOptions {
  readonly packed?: boolean;
  readonly limit?: number;
  readonly graph?: NamedTensors;
}

/** In a runtime of its own: nothing is known from before. */
async function run(
  store: WeightStore,
  { packed = true, limit = 0, graph = outputs }: RunOptions = {},
): Promise<number[][]> {
  const runtime = createOnnxRuntime({ threads: 1, packedWeightLimitBytes: limit });
  try {
    const program = await runtime.compile(graph, [store], { packed });
    const found = await program.run(inputs);
    return Object.keys(graph).map((name) => [...floatsOf(found, name)]);
  } finally {
    await runtime.dispose();
  }
}

const packedPath = (store: WeightStore): string =>
  join(
    model.cacheFolder,
    model.cacheNames('.weights').find((name) => name !== basename(pathOf(store)))!,
  );

/** The last data of the file, which are those of a packed copy. */
function flipPacked(path: string): void {
  chmodSync(path, 0o600);
  const bytes = readFileSync(path);
  const end = bytes.indexOf('{"format":');
  for (let at = end - 4096; at < end; at += 1) bytes[at]! ^= 1;
  writeFileSync(path, bytes);
}

describe('packed weights in a file', () => {
  it('give what weights that are packed in memory give, and nearly what plain ones give', async () => {
    const { store, notices } = await prepare();
    const mapped = await run(store);
    expect(mapped).toEqual(await run(store, { limit: Infinity }));
    const plain = await run(store, { packed: false });
    mapped.flat().forEach((value, at) => {
      expect(value).toBeCloseTo(plain.flat()[at]!, 5);
    });
    expect(notices).toEqual([]);
    expect(model.cacheNames('.weights')).toHaveLength(2);
    expect(readdirSync(model.cacheFolder).filter((name) => /tmp|program/.test(name))).toEqual([]);
  });

  it('are what products read', async () => {
    const { store } = await prepare();
    const whole = await run(store);
    const path = packedPath(store);
    const { atime, mtime } = statSync(path);
    flipPacked(path);
    utimesSync(path, atime, mtime);
    await recordCheck(path, await identifyFile(path)); // believed, though it is wrong
    expect(await run(store)).not.toEqual(whole);
  });

  it('are made once', async () => {
    const first = await prepare();
    const whole = await run(first.store);
    const { ino } = statSync(packedPath(first.store));
    const openOutput = () => Promise.reject(new Error('must not write'));
    const second = await prepare({ openOutput });
    expect(await run(second.store)).toEqual(whole);
    expect(second.notices).toEqual([]);
    expect(statSync(packedPath(first.store)).ino).toBe(ino);
  });

  it('are not made for programs that do not ask for them, nor below the limit', async () => {
    const { store } = await prepare();
    await run(store, { packed: false });
    await run(store, { limit: 4 * 2 * 64 * 96 });
    expect(model.cacheNames('.weights')).toEqual([basename(pathOf(store))]);
  });

  it('are shared by programs that read some of them', async () => {
    const { store } = await prepare();
    const runtime = createOnnxRuntime({ threads: 1, packedWeightLimitBytes: 0 });
    await runtime.compile(outputs, [store], { packed: true });
    const some = await runtime.compile({ straight: outputs.straight! }, [store], { packed: true });
    expect([...floatsOf(await some.run(inputs), 'straight')]).toEqual((await run(store))[0]);
    expect(model.cacheNames('.weights')).toHaveLength(2);
    await runtime.dispose();
  });

  it('may be made by two at once', async () => {
    const { store } = await prepare();
    const [one, two] = await Promise.all([run(store), run(store)]);
    expect(one).toEqual(two);
    expect(model.cacheNames('.weights')).toHaveLength(2);
    expect(model.cacheNames('.tmp')).toEqual([]);
  });

  it('are made anew when they are damaged', async () => {
    const first = await prepare();
    const whole = await run(first.store);
    await waitForFileTick(packedPath(first.store));
    flipPacked(packedPath(first.store));
    const second = await prepare();
    expect(await run(second.store)).toEqual(whole);
    expect(second.notices).toEqual([expect.stringMatching(/damaged and is made anew/)]);
  });

  it('are listed with their checkpoint, verified, and cleared', async () => {
    const { store } = await prepare();
    await run(store);
    const { weights, totalBytes } = await describeCache(model.cacheFolder);
    expect(weights.map(({ checkpoint }) => checkpoint)).toEqual([model.folder, model.folder]);
    const contentOf = (path: string) => weights.find((each) => each.path === path)?.content;
    expect([pathOf(store), packedPath(store)].map(contentOf)).toEqual(['plain', 'packed']);
    expect(totalBytes).toBe(statSync(pathOf(store)).size + statSync(packedPath(store)).size);
    expect((await verifyCache(model.cacheFolder)).map(({ result }) => result)).toEqual(['whole', 'whole']);
    // This process uses both.
    const { removed, inUse } = await clearCache(model.cacheFolder);
    expect([removed.length, inUse.length]).toEqual([0, 2]);
  });

  it('are done without where the cache has no room for them', async () => {
    const { store, notices } = await prepare({ cacheLimitBytes: 60_000 });
    const found = await run(store);
    expect(found).toEqual(await run(store, { packed: false }));
    expect(notices[0]).toMatch(
      /The packed weights take .* more than the 60\.0 KB .* slower.*MISTLETOE_CACHE_LIMIT/,
    );
    expect(model.cacheNames('.weights')).toEqual([basename(pathOf(store))]);
  });

  it('are done without where the disk is full, which is told once', async () => {
    await prepare();
    const openOutput = async (path: string): Promise<FileOutput> => ({
      ...(await openCacheOutput(path)),
      write: () => Promise.reject(Object.assign(new Error('no space left on device'), { code: 'ENOSPC' })),
    });
    const { store, notices } = await prepare({ openOutput });
    const runtime = createOnnxRuntime({ threads: 1, packedWeightLimitBytes: 0 });
    const program = await runtime.compile(outputs, [store], { packed: true });
    const found = await program.run(inputs);
    await runtime.compile({ straight: outputs.straight! }, [store], { packed: true });
    await runtime.dispose();
    expect([...floatsOf(found, 'straight')]).toEqual((await run(store, { packed: false }))[0]);
    expect(notices).toEqual([expect.stringMatching(/could not be written .*no space left.*slower/)]);
    expect(readdirSync(model.cacheFolder).filter((name) => /tmp|program/.test(name))).toEqual([]);
  });
});
