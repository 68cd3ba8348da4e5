import { appendFileSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { makeTemporaryFolder } from '../../../test/support/checkpoint/temporary-folder.js';
import { encodeHalves } from '../../core/half-floats.js';
import { contract } from '../../graph/operations/contraction.js';
import { input, weight } from '../../graph/tensor.js';
import { gatherRows } from '../../graph/operations/indexing.js';
import type { DerivedFile, FileWeights, WeightLocation } from '../weights.js';
import { float32, floatsOf, int32 } from '../program.js';
import { createOnnxRuntime } from './onnx-runtime.js';

const temporary = makeTemporaryFolder();
afterAll(temporary.remove);

const [rows, columns] = [96, 160];
const valueOf = (index: number): number => ((index * 37) % 101) / 64 - 0.75; // exact in 16 bits
const values = Float32Array.from({ length: rows * columns }, (_, index) => valueOf(index));

/** A weight in a file, which keeps what is made of it beside it, without any check. */
function writeStore(name: string, dtype: 'float32' | 'float16', change = (table: unknown) => table) {
  const path = join(temporary.path, `${name}.weights`);
  writeFileSync(path, dtype === 'float32' ? values : encodeHalves(values, dtype));
  const location: WeightLocation = {
    ...{ shape: [rows, columns], offsetBytes: 0, sizeBytes: statSync(path).size },
    ...(dtype === 'float32' ? {} : { dtype }),
  };
  const packed = join(temporary.path, `${name}.packed`);
  let kept: DerivedFile | undefined;
  const store: FileWeights = {
    ...{ kind: 'file', path, tensors: new Map([['w', location]]) },
    derived: {
      async keep({ write }) {
        if (kept !== undefined) return kept;
        writeFileSync(packed, '');
        const table = await write(async (bytes) => {
          const { size } = statSync(packed);
          appendFileSync(packed, new Uint8Array((4096 - (size % 4096)) % 4096));
          const offset = statSync(packed).size;
          for await (const chunk of bytes) appendFileSync(packed, chunk);
          return offset;
        });
        return (kept = { path: packed, table: change(table) });
      },
    },
  };
  return { store, packed };
}

const x = Float32Array.from({ length: 3 * rows }, (_, index) => Math.sin(index));
const expected = Float64Array.from({ length: 3 * columns }, (_, at) => {
  const [row, column] = [Math.floor(at / columns), at % columns];
  return values.reduce(
    (sum, value, index) =>
      index % columns === column ? sum + value * x[row * rows + Math.floor(index / columns)]! : sum,
    0,
  );
});

const table = weight('w', [rows, columns]);
const graph = {
  product: contract(input('x', [3, rows]), table, 'm k, k n -> m n'),
  looked: gatherRows(table, input('id', [1], 'int32')),
};

async function runWith(store: FileWeights): Promise<{ product: Float32Array; looked: Float32Array }> {
  const runtime = createOnnxRuntime({ threads: 1, packedWeightLimitBytes: 0 });
  try {
    const program = await runtime.compile(graph, [store], { packed: true });
    const results = await program.run({ x: float32(x, [3, rows]), id: int32([2]) });
    return { product: floatsOf(results, 'product'), looked: floatsOf(results, 'looked') };
  } finally {
    await runtime.dispose();
  }
}

function expectProduct(product: Float32Array): void {
  product.forEach((value, index) => {
    expect(value).toBeCloseTo(expected[index]!, 4);
  });
}

describe.each(['float32', 'float16'] as const)('a weight kept as %s', (dtype) => {
  it('is packed once, in little more than its size, and looked up in the plain file', async () => {
    const { store, packed } = writeStore(dtype, dtype);
    const first = await runWith(store);
    expectProduct(first.product);
    expect(first.looked).toEqual(values.slice(2 * columns, 3 * columns));
    // A page of NaN, and one packed copy.
    expect(statSync(packed).size).toBeLessThanOrEqual(4096 + 4 * (rows + 16) * (columns + 16));
    // The product never reads the plain file again: with other values there it is the same.
    writeFileSync(store.path, new Uint8Array(statSync(store.path).size));
    const second = await runWith(store);
    expect(second.product).toEqual(first.product);
    expect([...second.looked]).toEqual(new Array(columns).fill(0));
  });

  it('is read itself where ONNX Runtime does not find the packed copy', async () => {
    const rename = (made: unknown): unknown =>
      JSON.parse(JSON.stringify(made).replaceAll(/\+\d+\|/g, '+12345|'));
    const { store, packed } = writeStore(`${dtype}-lost`, dtype, rename);
    expectProduct((await runWith(store)).product);
    expect(readFileSync(packed).length).toBeGreaterThan(0);
  });
});
