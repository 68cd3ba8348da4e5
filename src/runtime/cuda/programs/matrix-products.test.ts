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
