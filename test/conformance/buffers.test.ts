/** What every runtime's buffers do, and programs with them. */
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { symbol } from '../../src/graph/dimension.js';
import { add, multiply } from '../../src/graph/operations/elementwise.js';
import { argmax } from '../../src/graph/operations/indexing.js';
import { constant, input } from '../../src/graph/tensor.js';
import { sum } from '../../src/graph/operations/reductions.js';
import { createCudaRuntime } from '../../src/runtime/cuda/cuda-runtime.js';
import { createInterpreter } from '../oracle/interpreter.js';
import { createOnnxRuntime } from '../../src/runtime/onnx/onnx-runtime.js';
import { type Runtime, bufferOf, float32, floatsOf, pickRows, resident } from '../../src/runtime/program.js';
import type { RowBuffer } from '../../src/runtime/row-buffer.js';
import { createEmulatedDevice, findCompiler } from '../support/emulated-device.js';

const runtimes: readonly Runtime[] = [
  createInterpreter(),
  createOnnxRuntime({ threads: 1 }),
  ...(findCompiler() === undefined ? [] : [createCudaRuntime(createEmulatedDevice())]),
];
afterAll(async () => {
  for (const runtime of runtimes) await runtime.dispose();
});

const read = async (buffer: RowBuffer): Promise<number[]> => [...(await buffer.read())];

function fill(runtime: Runtime, rows: readonly (readonly number[])[]): RowBuffer {
  const buffer = runtime.allocate(rows.length, rows[0]!.length);
  buffer.write(Float32Array.from(rows.flat()));
  return buffer;
}

describe.each(runtimes)('buffers of $name', (runtime) => {
  it('begin as zeros and keep what is written, row by row', async () => {
    const buffer = runtime.allocate(3, 2);
    expect(await read(buffer)).toEqual([0, 0, 0, 0, 0, 0]);
    buffer.write(Float32Array.of(1, 2), 1);
    expect(await read(buffer)).toEqual([0, 0, 1, 2, 0, 0]);
    expect(await read(runtime.allocate(0, 2))).toEqual([]);
  });

  it('share their memory with views of their rows and of other widths', async () => {
    const buffer = fill(runtime, [
      [1, 2],
      [3, 4],
      [5, 6],
    ]);
    const last = buffer.rows(1, 2);
    expect([last.rowCount, last.width]).toEqual([2, 2]);
    last.write(Float32Array.of(9, 9));
    buffer.withWidth(1).write(Float32Array.of(7), 5);
    expect(await read(buffer)).toEqual([1, 2, 9, 9, 5, 7]);
    expect(await read(last)).toEqual([9, 9, 5, 7]);
  });

  it('give copies to the host: what is read does not change afterwards', async () => {
    const buffer = fill(runtime, [[1, 2]]);
    const before = await buffer.read();
    buffer.write(Float32Array.of(5, 6));
    expect([...before]).toEqual([1, 2]);
  });

  it('copy any rows to any places', async () => {
    const rows = fc.integer({ min: 1, max: 12 });
    const pairs = fc.array(fc.tuple(fc.nat(), fc.nat()), { maxLength: 20 });
    await fc.assert(
      fc.asyncProperty(rows, rows, pairs, async (from, to, chosen) => {
        const source = Array.from({ length: from }, (_, row) => [row + 1, -row - 1]);
        const expected = Array.from({ length: to }, () => [0, 0]);
        const places = [...new Set(chosen.map(([, place]) => place % to))];
        const picks = places.map((_, index) => chosen[index]![0] % from);
        const target = runtime.allocate(to, 2);
        target.copyRows(fill(runtime, source), picks, places);
        places.forEach((place, index) => (expected[place] = source[picks[index]!]!));
        expect(await read(target)).toEqual(expected.flat());
      }),
      { numRuns: 50 },
    );
    const all = fill(runtime, [[1], [2], [3], [4]]);
    expect(await read(pickRows(runtime, all, [2, 3, 0, 1, 1]))).toEqual([3, 4, 1, 2, 2]);
  });

  it('copy blocks of rows at any distances', async () => {
    const small = fc.integer({ min: 0, max: 3 });
    const record = fc.record({
      ...{ count: small, rows: small, from: small, fromStep: small, fromRowStep: small, to: small },
      // Rows that are written twice could come in any order.
      ...{ toRowStep: fc.integer({ min: 1, max: 3 }), gap: small },
    });
    await fc.assert(
      fc.asyncProperty(record, async ({ gap, ...sizes }) => {
        const blocks = { ...sizes, toStep: sizes.rows * sizes.toRowStep + gap };
        const expected = Array.from({ length: 60 }, () => [0, 0]);
        const source = Array.from({ length: 20 }, (_, row) => [row + 1, -row - 1]);
        for (let block = 0; block < blocks.count; block++)
          for (let row = 0; row < blocks.rows; row++)
            expected[blocks.to + block * blocks.toStep + row * blocks.toRowStep] =
              source[blocks.from + block * blocks.fromStep + row * blocks.fromRowStep]!;
        const target = runtime.allocate(60, 2);
        target.copyBlocks(fill(runtime, source), blocks);
        expect(await read(target)).toEqual(expected.flat());
      }),
      { numRuns: 50 },
    );
  });

  it('refuse rows that they do not have, and rows of another width', () => {
    const buffer = runtime.allocate(3, 2);
    const blocks = {
      count: 2,
      rows: 1,
      from: 0,
      fromStep: 0,
      fromRowStep: 0,
      to: 0,
      toStep: 3,
      toRowStep: 1,
    };
    expect(() => {
      buffer.copyBlocks(runtime.allocate(1, 2), blocks);
    }).toThrow('Rows 0 to 4 were asked for in a buffer of 3.');
    expect(() => {
      buffer.copyBlocks(runtime.allocate(1, 2), { ...blocks, toStep: 1, fromStep: 1 });
    }).toThrow('Rows 0 to 2 were asked for in a buffer of 1.');
    expect(() => {
      buffer.copyBlocks(runtime.allocate(1, 3), { ...blocks, count: 1 });
    }).toThrow('Rows of 3 values were copied to rows of 2.');
    expect(() => buffer.rows(2, 2)).toThrow('Rows 2 to 4 were asked for in a buffer of 3.');
    expect(() => {
      buffer.write(Float32Array.of(1, 2), 3);
    }).toThrow('Rows 3 to 4');
    expect(() => {
      buffer.copyRows(runtime.allocate(1, 2), [0], [-1]);
    }).toThrow('Rows -1 to 0');
    expect(() => {
      buffer.copyRows(runtime.allocate(1, 3), [0], [0]);
    }).toThrow('Rows of 3 values');
    expect(() => buffer.withWidth(4)).toThrow('6 values cannot be parted into rows of 4.');
  });
});

describe.each(runtimes)('programs of $name with buffers', (runtime) => {
  const rows = symbol('rows');
  const x = input('x', [rows, 2]);
  const y = input('y', [rows, 2]);
  const graph = {
    sum: add(x, y),
    product: multiply(x, y),
    best: argmax(x),
    total: sum(add(x, y), [0, 1]),
  };

  it('read them in place, whole or some of their rows, beside host arrays', async () => {
    const program = await runtime.compile(graph);
    const buffer = fill(runtime, [
      [1, 2],
      [3, 4],
      [5, 6],
    ]);
    const inputs = { x: resident(buffer.rows(1, 2)), y: float32(Float32Array.of(10, 20, 30, 40), [2, 2]) };
    expect([...floatsOf(await program.run(inputs, ['sum']), 'sum')]).toEqual([13, 24, 35, 46]);
    buffer.write(Float32Array.of(0, 0), 1);
    expect([...floatsOf(await program.run(inputs, ['sum']), 'sum')]).toEqual([10, 20, 35, 46]);
    await program.dispose();
  });

  it('leave outputs in fresh buffers, which are inputs again, and others with the host', async () => {
    const program = await runtime.compile(graph);
    const first = await program.run(
      { x: resident(fill(runtime, [[1, 2]])), y: resident(fill(runtime, [[3, 5]])) },
      { sum: 'runtime', product: 'host' },
    );
    expect(Object.keys(first).sort()).toEqual(['product', 'sum']);
    expect([...floatsOf(first, 'product')]).toEqual([3, 10]);
    const sums = bufferOf(first, 'sum');
    expect([sums.rowCount, sums.width]).toEqual([1, 2]);
    const second = await program.run({ x: resident(sums), y: resident(sums) }, ['product']);
    expect([...floatsOf(second, 'product')]).toEqual([16, 49]);
    // Fresh: the next run does not change what the last one left.
    await program.run({ x: resident(sums), y: resident(sums) }, { sum: 'runtime' });
    expect(await read(sums)).toEqual([4, 7]);
    await program.dispose();
  });

  it('fill given buffers, also those that they read', async () => {
    const program = await runtime.compile(graph);
    const state = fill(runtime, [
      [0, 0],
      [1, 2],
    ]);
    const inputs = { x: resident(state.rows(1, 1)), y: float32(Float32Array.of(1, 1), [1, 2]) };
    for (let step = 0; step < 3; step++) await program.run(inputs, { sum: state.rows(1, 1) });
    expect(await read(state)).toEqual([0, 0, 4, 5]);
    const [total] = [runtime.allocate(1, 1)];
    await program.run(inputs, { total });
    expect(await read(total)).toEqual([11]);
    await program.dispose();
  });

  it('refuse a buffer of another size, and one of another runtime', async () => {
    const program = await runtime.compile({ twice: multiply(x, constant(2)) });
    const x2 = resident(runtime.allocate(2, 2));
    await expect(program.run({ x: x2 }, { twice: runtime.allocate(1, 2) })).rejects.toThrow('Rows 0 to 2');
    await expect(program.run({ x: resident(x2.buffer, [3, 2]) })).rejects.toThrow('4 values, expected 6');
    const foreign = { ...x2.buffer, width: 2, rowCount: 2 } as RowBuffer;
    await expect(program.run({ x: resident(foreign) })).rejects.toThrow('another runtime');
    await program.dispose();
  });

  it('keep whole numbers only where buffers may hold tokens', async () => {
    const program = await runtime.compile(graph);
    const x3 = float32(Float32Array.of(1, 2, 4, 3, 5, 6), [3, 2]);
    const kept = program.run({ x: x3, y: x3 }, { best: 'runtime' });
    if (runtime.keepsTokens === true) {
      const bits = await bufferOf(await kept, 'best').read();
      expect([...new Int32Array(bits.buffer)]).toEqual([1, 0, 1]);
    } else await expect(kept).rejects.toThrow('no float32 output "best"');
    await program.dispose();
  });
});
