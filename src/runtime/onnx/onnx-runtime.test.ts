import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { symbol } from '../../graph/dimension.js';
import { matmul } from '../../graph/operations/contraction.js';
import { add, multiply } from '../../graph/operations/elementwise.js';
import { gatherRows, scatterAddRows, topIndices, topValues } from '../../graph/operations/indexing.js';
import { constant, input, weight } from '../../graph/tensor.js';
import { softmax } from '../../graph/operations/reductions.js';
import { broadcast } from '../../graph/operations/shaping.js';
import { type NamedValues, type Runtime, float32, floatsOf, int32, integersOf } from '../program.js';
import { holdInMemory, writeWeights } from '../../../test/support/runtime/small-weights.js';
import type { FileWeights } from '../weights.js';
import { lowerToOnnx } from './lowering.js';
import { createOnnxRuntime } from './onnx-runtime.js';

let folder: string;
let runtime: Runtime;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'mistletoe-onnx-'));
  runtime = createOnnxRuntime({ threads: 2 });
});
afterAll(async () => {
  await runtime.dispose();
  await rm(folder, { recursive: true });
});

const x = input('x', [symbol('n'), 2]);
const rows: NamedValues = { x: float32(Float32Array.of(1, 2, 3, 4), [2, 2]) };

describe('the cache of programs', () => {
  // What a program declares comes from its session: the same array shows the same session.
  it('loads a graph once', async () => {
    const build = () => ({ y: multiply(input('x', [2]), 3) });
    const { inputs } = await runtime.compile(build());
    expect((await runtime.compile(build())).inputs).toBe(inputs);
    expect((await runtime.compile({ y: multiply(input('x', [2]), 4) })).inputs).not.toBe(inputs);
    expect((await runtime.compile({ z: multiply(input('x', [2]), 3) })).inputs).not.toBe(inputs);
  });

  it('loads it once when asked twice at the same time', async () => {
    const outputs = { y: multiply(input('x', [2]), 30) };
    const [first, second] = await Promise.all([runtime.compile(outputs), runtime.compile(outputs)]);
    expect(second.inputs).toBe(first.inputs);
  });

  it('keeps a session until its last holder has disposed of it', async () => {
    const outputs = { y: multiply(input('x', [2]), 6) };
    const values = { x: float32(Float32Array.of(1, 2), [2]) };
    const [first, second] = await Promise.all([runtime.compile(outputs), runtime.compile(outputs)]);
    await first.dispose();
    await first.dispose();
    await expect(first.run(values)).rejects.toThrow('The program was run after it was disposed of.');
    expect([...floatsOf(await second.run(values), 'y')]).toEqual([6, 12]);
    const third = await runtime.compile(outputs);
    expect(third.inputs).toBe(second.inputs);
    await second.dispose();
    await third.dispose();
    expect((await runtime.compile(outputs)).inputs).not.toBe(third.inputs);
  });

  it('keeps a session for whoever asked for it before another disposed of it', async () => {
    const outputs = { y: multiply(input('x', [2]), 8) };
    const first = await runtime.compile(outputs);
    const asked = runtime.compile(outputs);
    await first.dispose();
    const values = { x: float32(Float32Array.of(1, 2), [2]) };
    expect([...floatsOf(await (await asked).run(values), 'y')]).toEqual([8, 16]);
  });

  it('compiles again after the program was disposed of, and refuses to run the old one', async () => {
    const outputs = { y: multiply(input('x', [2]), 5) };
    const values = { x: float32(Float32Array.of(1, 2), [2]) };
    const program = await runtime.compile(outputs);
    await program.dispose();
    await program.dispose();
    await expect(program.run(values)).rejects.toThrow('The program was run after it was disposed of.');
    const again = await runtime.compile(outputs);
    expect(again).not.toBe(program);
    expect([...floatsOf(await again.run(values), 'y')]).toEqual([5, 10]);
  });

  it('tells weight files apart', async () => {
    const build = () => ({ y: weight('only', [1]) });
    const one = await writeWeights(join(folder, 'one.bin'), { only: { shape: [1], values: [1] } });
    const two = await writeWeights(join(folder, 'two.bin'), { only: { shape: [1], values: [2] } });
    const program = await runtime.compile(build(), [one]);
    expect((await runtime.compile(build(), [one])).inputs).toBe(program.inputs);
    expect(floatsOf(await (await runtime.compile(build(), [two])).run({}), 'y')[0]).toBe(2);
    expect(floatsOf(await program.run({}), 'y')[0]).toBe(1);
  });

  it('does not keep a failure', async () => {
    const path = join(folder, 'late.bin');
    const store: FileWeights = {
      kind: 'file',
      path,
      tensors: new Map([['w', { shape: [1], offsetBytes: 0, sizeBytes: 4 }]]),
    };
    const outputs = { y: weight('w', [1]) };
    await expect(runtime.compile(outputs, [store])).rejects.toMatchObject({
      name: 'MistletoeError',
      code: 'runtime',
    });
    await writeWeights(path, { w: { shape: [1], values: [7] } });
    expect(floatsOf(await (await runtime.compile(outputs, [store])).run({}), 'y')[0]).toBe(7);
  });
});

describe('runs', () => {
  let own: Runtime;
  beforeAll(() => {
    own = createOnnxRuntime({ threads: 1 });
  });
  afterAll(() => own.dispose());

  it('compute', async () => {
    const program = await own.compile(
      { y: add(matmul(x, constant([1, 2, 3, 4], [2, 2])), weight('b', [2])) },
      [holdInMemory('b', [2], [10, 20])],
    );
    const found = await program.run(rows);
    expect(found.y!.shape).toEqual([2, 2]);
    expect([...floatsOf(found, 'y')]).toEqual([17, 30, 25, 42]);
    expect([...rows.x!.data]).toEqual([1, 2, 3, 4]);
  });

  it('load weights from a file', async () => {
    const store = await writeWeights(join(folder, 'run.bin'), {
      w: { shape: [2], values: [5, 6] },
    });
    expect([...floatsOf(await (await own.compile({ y: weight('w', [2]) }, [store])).run({}), 'y')]).toEqual([
      5, 6,
    ]);
  });

  it('read a view and leave the rest of its array alone', async () => {
    const cache = Float32Array.of(0, 1, 2, 3, 4, 5);
    const program = await own.compile({ y: multiply(input('x', [symbol('n')]), 2) });
    const found = await program.run({ x: float32(cache.subarray(1, 4), [3]) });
    expect([...floatsOf(found, 'y')]).toEqual([2, 4, 6]);
    expect([...cache]).toEqual([0, 1, 2, 3, 4, 5]);
  });

  it('refuse inputs that do not fit', async () => {
    const program = await own.compile({ y: matmul(x, constant([1, 2], [2, 1])) });
    const attempts: readonly (readonly [NamedValues, string])[] = [
      [{}, 'The program needs an input "x".'],
      [
        { x: float32(new Float32Array(3), [1, 3]) },
        'Input "x" has shape [1, 3], expected [n, 2] with n = 1.',
      ],
      [{ x: int32([1, 2], [1, 2]) }, 'Input "x" holds int32 values, expected float32.'],
      [
        { x: float32(new Float32Array(0), [0, 2]) },
        'Input "x" has shape [0, 2], expected at least one value along every axis.',
      ],
    ];
    for (const [values, message] of attempts) {
      await expect(program.run(values)).rejects.toMatchObject({
        name: 'MistletoeError',
        code: 'runtime',
        message,
      });
    }
  });

  it('report what fails inside', async () => {
    const program = await own.compile({ y: gatherRows(constant([1, 2], [2]), input('at', [1], 'int32')) });
    await expect(program.run({ at: int32([5]) })).rejects.toMatchObject({
      name: 'MistletoeError',
      code: 'runtime',
      message: expect.stringContaining('ONNX Runtime failed in a run') as string,
    });
    expect([...floatsOf(await program.run({ at: int32([1]) }), 'y')]).toEqual([2]);
  });

  it('may overlap', async () => {
    const program = await own.compile({ y: multiply(input('x', [1]), 7) });
    const found = await Promise.all(
      Array.from({ length: 8 }, (_, at) => program.run({ x: float32(Float32Array.of(at), [1]) })),
    );
    expect(found.map((values) => floatsOf(values, 'y')[0])).toEqual([0, 7, 14, 21, 28, 35, 42, 49]);
  });
});

describe('a runtime that was disposed of', () => {
  it('runs no program any more', async () => {
    const own = createOnnxRuntime({ threads: 1 });
    const [program, twin] = await Promise.all([own.compile({ y: add(x, 2) }), own.compile({ y: add(x, 2) })]);
    const found = await program.run(rows);
    await own.dispose();
    expect([...floatsOf(found, 'y')]).toEqual([3, 4, 5, 6]);
    await expect(program.run(rows)).rejects.toThrow('after it was disposed of');
    await expect(twin.run(rows)).rejects.toThrow('after it was disposed of');
  });

  it('compiles none', async () => {
    const own = createOnnxRuntime({ threads: 1 });
    await own.dispose();
    await expect(own.compile({ y: add(x, 1) })).rejects.toThrow('after it was disposed of');
  });
});

describe('what a program is made of', () => {
  it('has one TopK for values and places', () => {
    const outputs = { values: topValues(x, 1), places: topIndices(x, 1) };
    const text = Buffer.from(lowerToOnnx(outputs, []).bytes).toString('latin1');
    // A node carries its operator in its name and in its type.
    expect(text.split('TopK:').length - 1).toBe(1);
  });

  it('has one node for an expression that is built twice', () => {
    const once = lowerToOnnx({ y: softmax(x) }, []).nodeCount;
    expect(lowerToOnnx({ y: softmax(x), z: softmax(x) }, []).nodeCount).toBe(once + 1); // one more output
  });

  it('keeps infinities of both signs', async () => {
    const program = await runtime.compile({
      low: constant(-Infinity),
      high: constant(Infinity),
      none: constant(NaN),
    });
    const found = await program.run({});
    expect(floatsOf(found, 'low')[0]).toBe(-Infinity);
    expect(floatsOf(found, 'high')[0]).toBe(Infinity);
    expect(floatsOf(found, 'none')[0]).toBe(NaN);
  });

  it('may call an input, an output and a weight by one name, or by one that looks made up', async () => {
    const t0 = input('t0', [2]);
    const program = await runtime.compile({ t0, c0: add(t0, weight('t0', [2])), t1: multiply(t0, 2) }, [
      holdInMemory('t0', [2], [10, 20]),
    ]);
    const found = await program.run({ t0: float32(Float32Array.of(1, 2), [2]) });
    expect(Object.keys(found).sort()).toEqual(['c0', 't0', 't1']);
    expect([...floatsOf(found, 't0')]).toEqual([1, 2]);
    expect([...floatsOf(found, 'c0')]).toEqual([11, 22]);
    expect([...floatsOf(found, 't1')]).toEqual([2, 4]);
  });

  it('adds every row in a scatter with many threads', async () => {
    const [count, width] = [50_000, 16];
    const like = constant(Array<number>(3 * width).fill(0), [3, width]);
    const program = await createOnnxRuntime({ threads: 4 }).compile({
      y: scatterAddRows(like, input('at', [count], 'int32'), broadcast(constant(1), [count, width])),
    });
    for (let attempt = 0; attempt < 10; attempt++) {
      const found = await program.run({ at: int32(new Int32Array(count).fill(1)) });
      expect([...floatsOf(found, 'y')]).toEqual(
        Array.from({ length: 3 * width }, (_, at) => (at >= width && at < 2 * width ? count : 0)),
      );
    }
    await program.dispose();
  });

  it('refuses a length that no input carries', async () => {
    const zeros = broadcast(constant(0), [symbol('n'), symbol('m')]);
    await expect(runtime.compile({ zeros })).rejects.toThrow('The graph needs the length "n"');
  });

  it('gives whole numbers as whole numbers', async () => {
    const program = await runtime.compile({ places: topIndices(x, 2) });
    expect([...integersOf(await program.run(rows), 'places')]).toEqual([1, 0, 1, 0]);
  });
});
