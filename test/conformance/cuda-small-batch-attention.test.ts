/** Attention of few rows against the interpreter, and what a decoder launches for few rows, on an emulated device. */
import { describe, expect, it } from 'vitest';
import type { HalfType } from '../../src/core/half-floats.js';
import { createRandom } from '../../src/core/random.js';
import { type Dimension, addDimensions, multiplyDimensions, symbol } from '../../src/graph/dimension.js';
import { attention, rotate } from '../../src/graph/operations/attention.js';
import { add } from '../../src/graph/operations/elementwise.js';
import { input, type Tensor } from '../../src/graph/tensor.js';
import { concatenate, reshape } from '../../src/graph/operations/shaping.js';
import type { KvCache } from '../../src/model/cache/kv-cache.js';
import { blocked } from '../../src/model/attention-inputs.js';
import { createCudaRuntime } from '../../src/runtime/cuda/cuda-runtime.js';
import type { Device } from '../../src/runtime/cuda/driver/device.js';
import { float32 } from '../../src/runtime/program.js';
import { createInterpreter } from '../oracle/interpreter.js';
import { type LaunchCounts, countLaunches } from '../support/counting-device.js';
import { createEmulatedDevice } from '../support/emulated-device.js';
import { type CudaBench, describeCuda, describeEmulated } from '../support/emulated-suite.js';
import { tiny, writeMixture } from '../support/tiny-checkpoints.js';
import { randomTokens, TinyModels } from '../support/tiny-pair.js';
import { drawValues } from './runtime-cases.js';
import { expectClose } from './runtime-comparison.js';

const rows = symbol('row');

describe.each([undefined, 'bfloat16'] as const)('with a past in %s', (cacheType) => {
  describeCuda('attention of few rows', {}, (bench) => {
    attendFewRows(bench, cacheType);
  });
});

function attendFewRows(bench: CudaBench, cacheType: HalfType | undefined): void {
  const [lanes, past] = [symbol('lanes'), symbol('past')];
  const [heads, keyValueHeads, size] = [4, 2, 8];
  const angles = (name: string): Tensor => input(name, [multiplyDimensions(rows, lanes), size / 2]);
  const turned = (name: string, count: number): Tensor => {
    const flat = input(name, [1, multiplyDimensions(rows, lanes), count, size]);
    return rotate(flat, angles('cosine'), angles('sine'));
  };
  const arrange = (tensor: Tensor, count: number): Tensor =>
    reshape(tensor, [1, rows, multiplyDimensions(lanes, count), size]);
  const keys = turned('keys', keyValueHeads);
  const shared = (name: string): Tensor =>
    input(name, [past, multiplyDimensions(lanes, keyValueHeads), size], cacheType);
  const own = arrange(
    input('values', [1, multiplyDimensions(rows, lanes), keyValueHeads, size]),
    keyValueHeads,
  );
  const mixed = attention(
    arrange(turned('queries', heads), heads),
    [
      { kind: 'shared', keys: shared('pastKeys'), values: shared('pastValues') },
      { kind: 'own', keys: arrange(keys, keyValueHeads), values: own },
    ],
    input('mask', [lanes, 1, rows, addDimensions(past, rows)]),
    { heads, keyValueHeads, scale: 0.4, cacheType },
  );
  const outputs = { mixed, keys };

  // One part, two of which the last has only new rows, parts of several rows, and more rows than the kernel takes.
  it('is the same in any number of parts, and makes keys on the way', async () => {
    const expected = await createInterpreter().compile(outputs);
    const program = await bench.runtime.compile(outputs, [], { packed: true });
    // What each row sees, and attention; of many rows, keys and attention.
    for (const [row, lane, length] of [
      [1, 1, 3],
      [3, 2, 64],
      [1, 2, 300],
      [2, 1, 1100],
      [5, 1, 70],
      [11, 2, 300],
      [65, 1, 20],
    ] as const) {
      const draw = { row, lanes: lane, past: length };
      const inputs = drawValues(outputs, draw, {}, `attention ${length}`);
      const before = bench.counts.kernels;
      const found = await program.run(inputs);
      expect(bench.counts.kernels - before).toBe(2);
      // Keys on the way that are close to two halves may be rounded to either.
      const absolute = cacheType === undefined ? 1e-5 : 1e-3;
      expectClose(found, await expected.run(inputs), { relative: 1e-4, absolute });
    }
  });
}

describeCuda('attention of few rows in every kind of segment', {}, (bench) => {
  const [batch, stem, past] = [symbol('batch'), symbol('stem'), symbol('past')];
  const size = 20; // five times four values: a single thread for a group
  const both = (kind: 'common' | 'shared' | 'own', shape: readonly Dimension[]) => ({
    kind,
    keys: input(`${kind}Keys`, shape),
    values: input(`${kind}Values`, shape),
  });

  it.each([
    {
      title: 'of a batch',
      lanes: undefined,
      segments: [both('shared', [past, 3, size]), both('own', [batch, rows, 3, size])],
    },
    {
      title: 'of lanes with a common beginning',
      lanes: symbol('lanes'),
      segments: [
        both('common', [stem, 3, size]),
        both('shared', [past, multiplyDimensions(symbol('lanes'), 3), size]),
        both('own', [batch, rows, multiplyDimensions(symbol('lanes'), 3), size]),
      ],
    },
  ])('$title', async ({ lanes, segments }) => {
    const seen = segments.map(({ keys }) => keys.shape.at(-3)!).reduce(addDimensions);
    const mask = input('mask', lanes === undefined ? [rows, seen] : [lanes, 1, rows, seen]);
    const queries = input('queries', [batch, rows, multiplyDimensions(lanes ?? 1, 6), size]);
    // Lengths that stand in sums and products only would not be known.
    const known = input('known', [rows, lanes ?? 1]);
    const mixed = attention(queries, segments, mask, { heads: 6, keyValueHeads: 3, scale: 0.4 });
    const outputs = { mixed, known: add(known, 1) };
    const expected = await createInterpreter().compile(outputs);
    const program = await bench.runtime.compile(outputs, [], { packed: true });
    for (const sizes of [
      { row: 1, lanes: 1, batch: 1, stem: 1, past: 2 },
      { row: 3, lanes: 2, batch: 2, stem: 40, past: 90 },
    ]) {
      const inputs = drawValues(outputs, sizes, {}, 'segments');
      expectClose(await program.run(inputs), await expected.run(inputs), { relative: 1e-4, absolute: 1e-5 });
    }
  });
});

describeCuda('attention to rows that were joined', {}, (bench) => {
  it('reads them where they are', async () => {
    const lanes = symbol('lanes');
    const [heads, keyValueHeads, size] = [4, 2, 8];
    const earlier = (name: string): Tensor =>
      input(name, [1, multiplyDimensions(symbol('earlier'), lanes), keyValueHeads, size]);
    const newest = (name: string): Tensor =>
      input(name, [1, multiplyDimensions(rows, lanes), keyValueHeads, size]);
    const length = addDimensions(symbol('earlier'), rows);
    const join = (name: string): Tensor => {
      const both = concatenate([earlier(`${name}0`), earlier(`${name}1`), newest(`${name}2`)], 1);
      const all = addDimensions(length, symbol('earlier'));
      return reshape(both, [1, all, multiplyDimensions(lanes, keyValueHeads), size]);
    };
    const all = addDimensions(length, symbol('earlier'));
    const mixed = attention(
      input('queries', [1, rows, multiplyDimensions(lanes, heads), size]),
      [{ kind: 'own', keys: join('keys'), values: join('values') }],
      input('mask', [lanes, 1, rows, all]),
      { heads, keyValueHeads, scale: 0.4 },
    );
    // Lengths that stand in sums and products only would not be known.
    const known = input('known', [rows, lanes, symbol('earlier')]);
    const outputs = { mixed, known: add(known, 1) };
    const expected = await createInterpreter().compile(outputs);
    const program = await bench.runtime.compile(outputs, [], { packed: true });
    for (const sizes of [
      { row: 1, lanes: 1, earlier: 3 },
      { row: 2, lanes: 3, earlier: 40 },
    ]) {
      const inputs = drawValues(outputs, sizes, {}, 'joined');
      const before = bench.counts.kernels;
      const found = await program.run(inputs);
      // What rows see, attention, and the lengths' output: nothing is copied.
      expect(bench.counts.kernels - before).toBe(3);
      expectClose(found, await expected.run(inputs), { relative: 1e-4, absolute: 1e-5 });
    }
  });
});

describeCuda('a row of attention', {}, (bench) => {
  const [lanes, past] = [symbol('lanes'), symbol('past')];
  const [heads, keyValueHeads, size] = [4, 2, 8];
  const shape = (length: Dimension, count: number) =>
    [length, multiplyDimensions(lanes, count), size] as const;
  const own = (name: string, count: number): Tensor => input(name, [1, ...shape(rows, count)]);
  const mixed = attention(
    own('queries', heads),
    [
      {
        kind: 'shared',
        keys: input('pastKeys', shape(past, keyValueHeads)),
        values: input('pastValues', shape(past, keyValueHeads)),
      },
      { kind: 'own', keys: own('keys', keyValueHeads), values: own('values', keyValueHeads) },
    ],
    input('mask', [lanes, 1, rows, addDimensions(past, rows)]),
    { heads, keyValueHeads, scale: 0.4 },
  );

  /** What stands in a lane: the number of a token, or undefined for what nobody may see. */
  type Content = readonly (number | undefined)[];

  it('depends on nothing but what it sees', async () => {
    const program = await bench.runtime.compile({ mixed }, [], { packed: true });
    const random = createRandom(3, 'what a row sees');
    const tokens = Array.from({ length: 100 }, () =>
      Float32Array.from({ length: size * keyValueHeads }, () => random.next() - 0.5),
    );
    const query = Float32Array.from({ length: size * heads }, () => 4 * (random.next() - 0.5));

    /** The last row's result in the last lane, where it sees the tokens 0 to 99 in their order. */
    async function mix(pasts: readonly Content[], news: readonly Content[]): Promise<Float32Array> {
      const [pastLength, newLength] = [pasts[0]!.length, news[0]!.length];
      const lay = (contents: readonly Content[]): Float32Array => {
        const length = contents[0]!.length;
        const laid = new Float32Array(length * contents.length * size * keyValueHeads).fill(0.25);
        contents.forEach((content, lane) => {
          content.forEach((token, at) => {
            if (token !== undefined)
              laid.set(tokens[token]!, (at * contents.length + lane) * size * keyValueHeads);
          });
        });
        return laid;
      };
      const count = pasts.length;
      const width = pastLength + newLength;
      const mask = new Float32Array(count * newLength * width).fill(blocked);
      pasts.forEach((content, lane) => {
        [...content, ...news[lane]!].forEach((token, at) => {
          if (token !== undefined)
            for (let row = 0; row < newLength; row++) mask[(lane * newLength + row) * width + at] = 0;
        });
      });
      const queries = new Float32Array(newLength * count * size * heads).fill(0.5);
      queries.set(query, queries.length - query.length);
      const [pastData, newData] = [lay(pasts), lay(news)];
      const flat = size * keyValueHeads;
      const pastShape = [pastLength, count * keyValueHeads, size];
      const newShape = [1, newLength, count * keyValueHeads, size];
      expect([pastData.length, newData.length]).toEqual([
        pastLength * count * flat,
        newLength * count * flat,
      ]);
      const found = await program.run({
        queries: float32(queries, [1, newLength, count * heads, size]),
        pastKeys: float32(pastData, pastShape),
        pastValues: float32(pastData, pastShape),
        keys: float32(newData, newShape),
        values: float32(newData, newShape),
        mask: float32(mask, [count, 1, newLength, width]),
      });
      return (found.mixed!.data as Float32Array).slice(-size * heads);
    }

    const upTo = (end: number): number[] => Array.from({ length: end }, (_, token) => token);
    const nobody = (count: number): undefined[] => new Array<undefined>(count).fill(undefined);
    const plain = await mix([upTo(99)], [[99]]);
    // A chain of five, and of twenty in several groups of rows.
    expect(await mix([upTo(95)], [[95, 96, 97, 98, 99]])).toEqual(plain);
    expect(await mix([upTo(80)], [upTo(100).slice(80)])).toEqual(plain);
    // Branches of a tree between its ancestors, and a past that begins elsewhere.
    const branch = [96, ...nobody(3), 97, ...nobody(1), 98, 99];
    expect(await mix([[...nobody(1), ...upTo(96)]], [branch])).toEqual(plain);
    // Beside so many lanes that each block has all parts.
    const lanes = Array.from({ length: 260 }, () => upTo(99));
    expect(await mix(lanes, lanes.map(() => [99]))).toEqual(plain); // prettier-ignore
    // Beside a longer lane.
    const [long, short] = [
      [...upTo(99), ...upTo(41)],
      [...upTo(97), ...nobody(43)],
    ];
    expect(await mix([long, short], [[97, 98, 99], [97, 98, 99]])).toEqual(plain); // prettier-ignore
  });
});

describeEmulated('a decoder', () => {
  /** Launches of a layer in a pass over each number of rows: what a third layer adds to two. */
  async function countLayer(rowCounts: readonly number[]): Promise<LaunchCounts[]> {
    const [two, three] = [await countPasses(2, rowCounts), await countPasses(3, rowCounts)];
    return three.map(({ kernels, products }, index) => ({
      ...{ kernels: kernels - two[index]!.kernels, products: products - two[index]!.products },
    }));
  }

  async function countPasses(layerCount: number, rowCounts: readonly number[]): Promise<LaunchCounts[]> {
    const { device, counts } = countLaunches(createEmulatedDevice());
    const models = new TinyModels(
      { ...tiny, layerCount, contextLength: 80 },
      createCudaRuntime(device, { productType: 'bfloat16' }),
    );
    const { target } = await models.loadTarget();
    await target.prepare();
    const passes: LaunchCounts[] = [];
    for (const rowCount of rowCounts) {
      const before = { ...counts };
      const tokens = new Int32Array(rowCount).fill(7);
      await target.forward({ tokens, cache: target.createCache(), want: ['argmax'] });
      passes.push({ kernels: counts.kernels - before.kernels, products: counts.products - before.products });
    }
    await models.dispose();
    return passes;
  }

  it.each([
    ['dense', undefined],
    ['with experts', writeMixture],
  ])('gives a row the same scores beside any others: %s', async (_, write) => {
    const runtime = createCudaRuntime(createEmulatedDevice(), { productType: 'bfloat16' });
    const models = new TinyModels({ ...tiny, layerCount: 2 }, runtime);
    const target =
      write === undefined
        ? (await models.loadTarget()).target
        : await models.loadModel(write(models.freshFolder(), { ...tiny, layerCount: 2 }));
    const [context, next] = [randomTokens('context', 9, 16), randomTokens('next', 12, 16)];
    const score = async (tokens: readonly number[], cache: KvCache, parents?: readonly number[]) => {
      const rows = { tokens: Int32Array.from(tokens), parents: parents && Int32Array.from(parents) };
      const result = await target.forward({ ...rows, cache, want: ['logits'] });
      const width = result.logits!.length / tokens.length;
      return {
        ...result,
        scores: tokens.map((_, row) => result.logits!.slice(row * width, (row + 1) * width)),
      };
    };
    const afterContext = async (): Promise<KvCache> => {
      const cache = target.createCache();
      cache.appendAll((await score(context, cache)).rows, context.length);
      return cache;
    };
    const alone: Float32Array[] = [];
    const cache = await afterContext();
    for (const token of next) {
      const { rows, scores } = await score([token], cache);
      cache.appendAll(rows, 1);
      alone.push(...scores);
    }
    expect((await score(next, await afterContext())).scores).toEqual(alone);
    // The first three in a tree, each behind a branch.
    const [first, second, third] = next as [number, number, number];
    const tree = await score([first, 3, second, 5, 7, third], await afterContext(), [-1, -1, 0, 0, 2, 2]);
    expect([0, 2, 5].map((row) => tree.scores[row])).toEqual(alone.slice(0, 3));
    await models.dispose();
  });

  it('launches few kernels a layer for few rows, and products for more', async () => {
    expect(await countLayer([1, 8, 64, 65])).toEqual([
      // Queries, keys and values; attention; its output; gate; down.
      { kernels: 5, products: 0 },
      { kernels: 5, products: 0 },
      { kernels: 5, products: 0 },
      // Two norms, rotated keys, attention, the gate; products add residuals themselves.
      { kernels: 5, products: 7 },
    ]);
  });

  it('records one pass for all numbers of rows of its kernels', async () => {
    let recordings = 0;
    const emulated = createEmulatedDevice();
    const record: Device['record'] = (work) => {
      recordings += 1;
      return emulated.record(work);
    };
    const models = new TinyModels(
      { ...tiny, layerCount: 2 },
      createCudaRuntime({ ...emulated, record }, { productType: 'bfloat16' }),
    );
    const { target } = await models.loadTarget();
    const cache = target.createCache();
    const counts: number[] = [];
    // The first pass of its kernels launches them, the second is recorded; 4 rows have others than 5.
    for (const rowCount of [5, 6, 8, 4, 7, 3, 5]) {
      const { rows } = await target.forward({
        tokens: new Int32Array(rowCount).fill(7),
        cache,
        want: ['argmax'],
      });
      rows.free();
      counts.push(recordings);
    }
    await models.dispose();
    expect(counts).toEqual([0, 1, 1, 1, 1, 2, 2]);
  });
});
