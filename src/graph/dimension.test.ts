import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { MistletoeError } from '../core/errors.js';
import type { Dimension } from './dimension.js';
import {
  addDimensions,
  bareSymbol,
  countElements,
  divideDimension,
  equalDimensions,
  equalShapes,
  evaluateDimension,
  formatDimension,
  formatShape,
  isMultiple,
  multiplyDimensions,
  subtractDimensions,
  symbol,
} from './dimension.js';

const leaves = fc.oneof(
  fc.integer({ min: -5, max: 5 }),
  fc.constantFrom('a', 'b', 'position').map((name): Dimension => symbol(name)),
);
const { dimension } = fc.letrec<{ dimension: Dimension }>((tie) => ({
  dimension: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    leaves,
    fc.tuple(tie('dimension'), tie('dimension')).map(([left, right]) => addDimensions(left, right)),
    fc.tuple(tie('dimension'), tie('dimension')).map(([left, right]) => multiplyDimensions(left, right)),
    fc.tuple(tie('dimension'), tie('dimension')).map(([left, right]) => subtractDimensions(left, right)),
  ),
}));
const bindings = fc
  .record({
    a: fc.integer({ min: 0, max: 9 }),
    b: fc.integer({ min: 0, max: 9 }),
    position: fc.integer({ min: 0, max: 9 }),
  })
  .map((record) => new Map(Object.entries(record)));

const expectEqual = (left: Dimension, right: Dimension): void => {
  expect(formatDimension(left)).toBe(formatDimension(right));
  expect(equalDimensions(left, right)).toBe(true);
};

describe('dimensions', () => {
  it('form a commutative ring', () => {
    fc.assert(
      fc.property(dimension, dimension, dimension, (a, b, c) => {
        expectEqual(addDimensions(a, b), addDimensions(b, a));
        expectEqual(multiplyDimensions(a, b), multiplyDimensions(b, a));
        expectEqual(addDimensions(addDimensions(a, b), c), addDimensions(a, addDimensions(b, c)));
        expectEqual(
          multiplyDimensions(multiplyDimensions(a, b), c),
          multiplyDimensions(a, multiplyDimensions(b, c)),
        );
        expectEqual(
          multiplyDimensions(a, addDimensions(b, c)),
          addDimensions(multiplyDimensions(a, b), multiplyDimensions(a, c)),
        );
        expectEqual(addDimensions(a, 0), a);
        expectEqual(multiplyDimensions(a, 1), a);
        expect(subtractDimensions(a, a)).toBe(0);
        expect(multiplyDimensions(a, 0)).toBe(0);
      }),
    );
  });

  it('mean the number that their symbols give', () => {
    fc.assert(
      fc.property(dimension, dimension, bindings, (a, b, bound) => {
        const [left, right] = [evaluateDimension(a, bound)!, evaluateDimension(b, bound)!];
        expect(evaluateDimension(addDimensions(a, b), bound)).toBe(left + right);
        expect(evaluateDimension(subtractDimensions(a, b), bound)).toBe(left - right);
        expect(evaluateDimension(multiplyDimensions(a, b), bound)! - left * right).toBe(0);
      }),
    );
  });

  it('are numbers again once no symbol is left', () => {
    const n = symbol('n');
    expect(subtractDimensions(addDimensions(n, 3), n)).toBe(3);
    expect(multiplyDimensions(4, 5)).toBe(20);
  });

  it('are unknown while a symbol is not bound', () => {
    const size = addDimensions(symbol('past'), symbol('new'));
    expect(evaluateDimension(size, new Map([['past', 2]]))).toBeUndefined();
    expect(
      evaluateDimension(
        size,
        new Map([
          ['past', 2],
          ['new', 0],
        ]),
      ),
    ).toBe(2);
  });

  it('tell different polynomials apart', () => {
    const [a, b] = [symbol('a'), symbol('b')];
    expect(equalDimensions(a, b)).toBe(false);
    expect(equalDimensions(multiplyDimensions(a, a), a)).toBe(false);
    expect(equalDimensions(addDimensions(a, 1), a)).toBe(false);
    expect(equalShapes([a, 2], [a])).toBe(false);
    expect(equalShapes([a, 2], [a, 2])).toBe(true);
  });

  it('read as people write them', () => {
    const [past, fresh] = [symbol('past'), symbol('new')];
    expect(formatShape([addDimensions(past, multiplyDimensions(4, fresh)), 8])).toBe('[past + 4*new, 8]');
    expect(formatDimension(countElements([past, fresh, 2]))).toBe('2*new*past');
    expect(countElements([])).toBe(1);
  });

  it('name a symbol only where it stands alone', () => {
    const n = symbol('n');
    expect(bareSymbol(n)).toBe('n');
    expect(bareSymbol(3)).toBeUndefined();
    expect(bareSymbol(multiplyDimensions(n, 2))).toBeUndefined();
    expect(bareSymbol(multiplyDimensions(n, symbol('m')))).toBeUndefined();
    expect(bareSymbol(addDimensions(n, 1))).toBeUndefined();
  });

  it.each(['', '2', 'a + b', 'a*b'])('refuse the name "%s"', (name) => {
    expect(() => symbol(name)).toThrow(MistletoeError);
  });
});

describe('isMultiple', () => {
  it('holds only where it does for all values of the symbols', () => {
    const [a, b] = [symbol('a'), symbol('b')];
    expect(isMultiple(12, 4)).toBe(true);
    expect(isMultiple(addDimensions(multiplyDimensions(a, 8), multiplyDimensions(b, 4)), 4)).toBe(true);
    expect(isMultiple(addDimensions(multiplyDimensions(a, 8), 2), 4)).toBe(false);
    expect(isMultiple(a, 4)).toBe(false);
  });

  it('are divided by a symbol that is a factor, and by nothing else', () => {
    fc.assert(
      fc.property(dimension, (each) => {
        const product = multiplyDimensions(each, symbol('lanes'));
        if (product !== 0) expect(divideDimension(product, symbol('lanes'))).toEqual(each);
        expect(divideDimension(addDimensions(product, 1), symbol('lanes'))).toBeUndefined();
        expect(divideDimension(each, 1)).toEqual(each);
      }),
    );
  });
});
