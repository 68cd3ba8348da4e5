import { describe, expect, it } from 'vitest';
import { MatrixProducts } from './matrix-products.js';
import type { FakeLibrary, Handlers } from '../../../../test/support/runtime/cuda/fake-library.js';
import { fakeLibrary, fakeNative, write } from '../../../../test/support/runtime/cuda/fake-library.js';
import { productAt, productCases } from '../../../../test/support/runtime/cuda/product-cases.js';

const handlers: Handlers = {
  cublasLtCreate: (handle) => write(handle, 1),
  cublasLtMatmulPreferenceCreate: (preference) => write(preference, 2),
  cublasLtMatmulDescCreate: (description) => write(description, 3),
  cublasLtMatrixLayoutCreate: (layout) => write(layout, 4),
  cublasLtMatmulAlgoGetHeuristic: (...values) => write(values.at(-1), 1),
  cublasLtGetStatusName: () => 9n,
};

function create(changes: Handlers = {}): { products: MatrixProducts; library: FakeLibrary; freed: bigint[] } {
  const library = fakeLibrary({ ...handlers, ...changes });
  const native = fakeNative({ '9': 'CUBLAS_STATUS_NOT_SUPPORTED' });
  return { products: new MatrixProducts(native, library, 50n, 60n), library, freed: native.freed };
}

const count = ({ calls }: FakeLibrary, name: string): number =>
  calls.filter(([called]) => called === name).length;
const cases = productCases();
const product = productAt(cases[0]!, [256n, 512n, 1024n]);
const other = productAt(cases[1]!, [256n, 512n, 1024n]);

describe('matrix products', () => {
  it('are described once for each layout', () => {
    const { products, library } = create();
    products.multiply(product);
    products.multiply({ ...product, scale: 2, left: { ...product.left, address: 4096n } });
    products.multiply(other);
    expect(count(library, 'cublasLtMatmulAlgoGetHeuristic')).toBe(2);
    expect(count(library, 'cublasLtMatmul')).toBe(3);
  });

  it('have the right side for A, the left for B, and the result for C and D', () => {
    const { products, library } = create();
    products.multiply(product);
    const call = library.calls.find(([name]) => name === 'cublasLtMatmul')!;
    const [, handle, description, , a, , b, , , c, , d, , , workspace, bytes, stream] = call;
    expect([handle, description, a, b, c, d]).toEqual([1n, 3n, 512n, 256n, 1024n, 1024n]);
    expect([workspace, bytes, stream]).toEqual([60n, 32 << 20, 50n]);
  });

  it('set the batch only for stacks', () => {
    const { products, library } = create();
    products.multiply(product);
    expect(count(library, 'cublasLtMatrixLayoutSetAttribute')).toBe(0);
    products.multiply(
      productAt(
        cases.find(({ batch }) => batch > 1)!,
        [256n, 512n, 1024n],
      ),
    );
    expect(count(library, 'cublasLtMatrixLayoutSetAttribute')).toBe(6);
  });

  it.each([
    ['no algorithm', { cublasLtMatmulAlgoGetHeuristic: () => 0 }],
    ['a refusal', { cublasLtMatmulAlgoGetHeuristic: () => 15 }],
  ])('say which product has %s, and keep nothing of it', (_, changes) => {
    const { products, library, freed } = create(changes);
    const message =
      'cublasLtMatmulAlgoGetHeuristic failed for the product [5, 6] float32 by [6, 7] float32 to float32: CUBLAS_STATUS_NOT_SUPPORTED.';
    for (const destroyed of [3, 6]) {
      expect(() => {
        products.multiply(product);
      }).toThrow(message);
      expect(count(library, 'cublasLtMatrixLayoutDestroy')).toBe(destroyed);
    }
    expect(freed).toHaveLength(2);
  });

  describe('of few rows and a large matrix', () => {
    const matrix = { type: 'bfloat16', rowStride: 4096, batchStride: 0, transposed: false } as const;
    const large = {
      ...{ rows: 64, columns: 4096, inner: 4096, batch: 1, scale: 1 },
      left: { ...matrix, address: 256n },
      right: { ...matrix, address: 512n },
      result: { type: 'float32', rowStride: 4096, batchStride: 0, address: 1024n },
    } as const;

    /** Which of the proposals runs after the first product, if they take so long. */
    function chosen(times: readonly (number | undefined)[], changed: object = {}): number {
      const library = fakeLibrary({
        ...handlers,
        cublasLtMatmulAlgoGetHeuristic: (...values) =>
          write(values.at(-1), Math.min(times.length, Number(values.at(-3)))),
      });
      const used = (): bigint[] =>
        library.calls.filter(([name]) => name === 'cublasLtMatmul').map((call) => call[13] as bigint);
      const first = new Set<bigint>();
      const products = new MatrixProducts(fakeNative(), library, 50n, 60n, (work) => {
        work();
        first.add(used().at(-1)!);
        return times[[...first].indexOf(used().at(-1)!)];
      });
      products.multiply({ ...large, ...changed });
      products.multiply({ ...large, ...changed });
      expect(used().at(-1)).toBe(used().at(-2));
      return [...first].indexOf(used().at(-1)!);
    }

    it.each([
      [[3, 2, 1, 2], 2],
      [[1, 2, 0.5], 2],
      [[1, 0.97, 1.2], 0],
      [[undefined, undefined], 0],
    ])('use the clearly fastest of what takes %j: %d', (times, expected) => {
      expect(chosen(times)).toBe(expected);
    });

    it('are tried nowhere else', () => {
      expect(chosen([3, 1], { rows: 1000 })).toBe(-1);
      expect(chosen([3, 1], { columns: 8 })).toBe(-1);
    });
  });

  it('destroy what they made', () => {
    const { products, library, freed } = create();
    products.multiply(product);
    products.multiply(other);
    products.dispose();
    for (const kind of ['MatmulDesc', 'MatrixLayout', 'MatmulPreference']) {
      expect(count(library, `cublasLt${kind}Destroy`)).toBe(count(library, `cublasLt${kind}Create`));
    }
    expect(count(library, 'cublasLtDestroy')).toBe(1);
    expect(freed).toHaveLength(3);
  });
});
