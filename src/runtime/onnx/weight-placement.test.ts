import { mkdir, mkdtemp, rm, stat, utimes } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createRandom } from '../../core/random.js';
import { symbol } from '../../graph/dimension.js';
import { matmul } from '../../graph/operations/contraction.js';
import { add } from '../../graph/operations/elementwise.js';
import { input, weight } from '../../graph/tensor.js';
import { type NamedValues, type Runtime, float32, floatsOf } from '../program.js';
import { holdInMemory, writeWeights } from '../../../test/support/runtime/small-weights.js';
import type { CheckpointWeights, FileWeights, MemoryWeights } from '../weights.js';
import { createOnnxRuntime } from './onnx-runtime.js';

let folder: string;
let runtime: Runtime;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'mistletoe-weights-'));
  runtime = createOnnxRuntime({ threads: 1 });
});
afterAll(async () => {
  await runtime.dispose();
  await rm(folder, { recursive: true });
});

const x = input('x', [symbol('n'), 2]);
const rows: NamedValues = { x: float32(Float32Array.of(1, 2, 3, 4), [2, 2]) };

describe('weights', () => {
  const tensors = {
    a: { shape: [2, 2], values: [1, 2, 3, 4] },
    b: { shape: [2], values: [10, 20] },
    large: { shape: [40, 40], values: Array.from({ length: 1600 }, (_, at) => at) },
  };

  it('are read from their places in a file', async () => {
    const store = await writeWeights(join(folder, 'weights.bin'), tensors);
    const outputs = {
      y: add(matmul(x, weight('a', [2, 2])), weight('b', [2])),
      large: weight('large', [40, 40]),
    };
    const found = await (await runtime.compile(outputs, [store])).run(rows);
    expect([...floatsOf(found, 'y')]).toEqual([17, 30, 25, 42]);
    expect([...floatsOf(found, 'large')]).toEqual(tensors.large.values);
  });

  it('come from two files in one folder, two folders and memory at once', async () => {
    await mkdir(join(folder, 'other'), { recursive: true });
    const stores = [
      await writeWeights(join(folder, 'first.bin'), { a: tensors.a }),
      await writeWeights(join(folder, 'second.bin'), { b: tensors.b }),
      // The same file name in another folder must not be mistaken for the first.
      await writeWeights(join(folder, 'other', 'first.bin'), {
        skipped: { shape: [1], values: [0] },
        c: { shape: [2], values: [100, 200] },
      }),
      holdInMemory('d', [2], [1000, 2000]),
    ];
    const bias = add(weight('c', [2]), add(weight('d', [2]), weight('b', [2])));
    const program = await runtime.compile({ y: add(matmul(x, weight('a', [2, 2])), bias) }, stores);
    expect([...floatsOf(await program.run(rows), 'y')]).toEqual([1117, 2230, 1125, 2242]);
  });

  it.each(['native', 'script'] as const)('are mapped without any file beside them (%s)', async (binding) => {
    const own = createOnnxRuntime({ threads: 1, binding });
    const place = join(folder, binding);
    await mkdir(join(place, 'inner'), { recursive: true });
    const store = await writeWeights(join(place, 'weights.bin'), { a: tensors.a });
    const stores = [store, await writeWeights(join(place, 'inner', 'weights.bin'), { b: tensors.b })];
    const broken: FileWeights = {
      ...store,
      tensors: new Map([['a', { shape: [2, 2], offsetBytes: 1 << 20, sizeBytes: 16 }]]),
    };
    // A name that comes and goes leaves another time.
    const old = new Date('2020-01-01');
    await utimes(place, old, old);
    const outputs = { y: add(matmul(x, weight('a', [2, 2])), weight('b', [2])) };
    const found = await (await own.compile(outputs, stores)).run(rows);
    expect([...floatsOf(found, 'y')]).toEqual([17, 30, 25, 42]);
    await expect(own.compile({ y: weight('a', [2, 2]) }, [broken])).rejects.toMatchObject({
      code: 'runtime',
    });
    expect((await stat(place)).mtime).toEqual(old);
    await own.dispose();
  });

  it('may be views into a larger array', async () => {
    const data = Float32Array.of(9, 9, 1, 2).subarray(2);
    const store: MemoryWeights = { kind: 'memory', tensors: new Map([['v', { shape: [2], data }]]) };
    const program = await runtime.compile({ y: add(x, weight('v', [2])) }, [store]);
    expect([...floatsOf(await program.run(rows), 'y')]).toEqual([2, 4, 4, 6]);
  });

  it('give the same results packed', async () => {
    const random = createRandom('packed');
    const values = Array.from({ length: 64 * 96 }, () => random.next() - 0.5);
    const store = await writeWeights(join(folder, 'packed.bin'), { m: { shape: [64, 96], values } });
    const outputs = { y: matmul(input('x', [symbol('n'), 64]), weight('m', [64, 96])) };
    const inputs = {
      x: float32(
        Float32Array.from({ length: 192 }, () => random.next()),
        [3, 64],
      ),
    };
    const plain = await runtime.compile(outputs, [store]);
    const packed = await runtime.compile(outputs, [store], { packed: true });
    expect(packed).not.toBe(plain);
    const [one, two] = [floatsOf(await plain.run(inputs), 'y'), floatsOf(await packed.run(inputs), 'y')];
    one.forEach((value, at) => {
      expect(two[at]).toBeCloseTo(value, 5);
    });
  });

  it.each([
    ['missing', () => [], 'The graph reads a weight "a" that none of the given weights hold.', 'checkpoint'],
    [
      'of another shape',
      () => [holdInMemory('a', [4], [1, 2, 3, 4])],
      'Weight "a" has shape [4], the graph expects [2, 2].',
      'shape',
    ],
    [
      'in a file without an absolute path',
      (): FileWeights[] => [
        {
          kind: 'file',
          path: 'w.bin',
          tensors: new Map([['a', { shape: [2, 2], offsetBytes: 0, sizeBytes: 16 }]]),
        },
      ],
      'The weight file "w.bin" was expected as an absolute path.',
      'checkpoint',
    ],
    [
      'as a checkpoint stores them',
      (): CheckpointWeights[] => {
        const part = { dtype: 'float32' as const, shape: [2, 2], isTransposed: false, read: () => [] };
        return [{ kind: 'checkpoint', tensors: new Map([['a', { shape: [2, 2], parts: [part] }]]) }];
      },
      'Weight "a" was given as the checkpoint stores it; this runtime reads converted weights.',
      'runtime',
    ],
  ])('are refused when %s', async (_, stores, message, code) => {
    const compiled = runtime.compile({ y: matmul(x, weight('a', [2, 2])) }, stores());
    await expect(compiled).rejects.toMatchObject({ name: 'MistletoeError', message, code });
  });
});
