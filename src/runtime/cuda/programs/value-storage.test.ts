import { describe, expect, it } from 'vitest';
import { planContraction } from '../../../graph/contraction-plan.js';
import { symbol } from '../../../graph/dimension.js';
import { contract, matmul } from '../../../graph/operations/contraction.js';
import { add, multiply, silu } from '../../../graph/operations/elementwise.js';
import { gatherRows } from '../../../graph/operations/indexing.js';
import { input, weight } from '../../../graph/tensor.js';
import { rmsNorm } from '../../../graph/operations/reductions.js';
import { simplify } from '../../../graph/simplify.js';
import type { NamedTensors } from '../../program.js';
import type { FloatType } from '../driver/device.js';
import { scheduleGraph } from './schedule.js';
import type { ProductStep } from './step.js';

const x = input('x', [symbol('row'), 16]);
const rows = rmsNorm(x, weight('scale', [16]), 1e-5);
const gate = matmul(rows, weight('gate', [16, 32]));
const up = matmul(rows, weight('up', [16, 32]));
const down = matmul(multiply(silu(gate), up), weight('down', [32, 16]));

/** [weight] what products with it are written as. */
function typesOf(outputs: NamedTensors, productType: FloatType): Readonly<Record<string, string>> {
  const graph = simplify(outputs, [planContraction]);
  const { steps } = scheduleGraph(graph, { productType, smallBatches: false, tensorCores: false });
  const products = steps.filter((step): step is ProductStep => step.kind === 'product');
  return Object.fromEntries(
    products.map(({ right: { tensor }, result }) => [
      tensor.operation === 'weight' ? tensor.attributes.name : '',
      result.type,
    ]),
  );
}

describe('tables of embeddings', () => {
  it.each(['float32', 'bfloat16', 'float16'] as const)(
    'are stored once, as products read them: %s',
    (type) => {
      const table = weight('table', [32, 16]);
      const embedded = gatherRows(table, input('tokens', [symbol('row')], 'int32'));
      const scores = contract(embedded, table, 'r h, v h -> r v');
      const graph = simplify({ scores, embedded }, [planContraction]);
      const { places } = scheduleGraph(graph, { productType: type, smallBatches: false, tensorCores: false });
      const tables = places.filter(({ tensor }) => tensor === table);
      expect(tables.map((place) => [place.type, place.isTransposed])).toEqual([[type, false]]);
    },
  );

  it('have their type also where nothing else reads them', () => {
    const embedded = gatherRows(weight('table', [32, 16]), input('tokens', [symbol('row')], 'int32'));
    const { places } = scheduleGraph(
      { embedded },
      { productType: 'bfloat16', smallBatches: false, tensorCores: false },
    );
    expect(places.find(({ origin }) => origin === 'weight')!.type).toBe('bfloat16');
  });
});

describe('products', () => {
  it('are written as halves where only what other products read is made of them', () => {
    expect(typesOf({ y: add(x, down) }, 'bfloat16')).toEqual({
      gate: 'bfloat16',
      up: 'bfloat16',
      down: 'float32',
    });
  });

  it('stay as they are where something else is made of them, too', () => {
    expect(typesOf({ y: add(x, down), up }, 'bfloat16')).toMatchObject({ gate: 'bfloat16', up: 'float32' });
    expect(typesOf({ y: add(x, down), z: rmsNorm(gate, weight('other', [32]), 1e-5) }, 'bfloat16')).toEqual({
      gate: 'float32',
      up: 'bfloat16',
      down: 'float32',
    });
  });

  it.each(['float32', 'float16'] as const)('stay as they are where products read %s', (type) => {
    expect(typesOf({ y: add(x, down) }, type)).toEqual({ gate: 'float32', up: 'float32', down: 'float32' });
  });

  it('that other products read directly are written as those read them', () => {
    const twice = matmul(matmul(rows, weight('a', [16, 8])), weight('b', [8, 4]));
    expect(typesOf({ twice }, 'float16')).toEqual({ a: 'float16', b: 'float32' });
  });
});
