import fc from 'fast-check';
import { symbol } from '../../../src/graph/dimension.js';
import { contract } from '../../../src/graph/operations/contraction.js';
import { input, type Tensor } from '../../../src/graph/tensor.js';

export interface ContractionLayout {
  readonly equation: string;
  /** Of the inputs x and y. */
  readonly tensor: Tensor;
  /** By the names of the axes, those of fixed length included. */
  readonly sizes: Readonly<Record<string, number>>;
}

type Side = 'left' | 'right' | 'output';

// Each axis stands in two or three of left, right and output.
const places: readonly (readonly Side[])[] = [
  ['left', 'right'],
  ['left', 'output'],
  ['right', 'output'],
  ['left', 'right', 'output'],
];
const axes = fc.array(
  fc.record({
    place: fc.constantFrom(...places),
    size: fc.constantFrom(1, 2, 3),
    isSymbolic: fc.boolean(),
  }),
  { minLength: 1, maxLength: 7 },
);

/** Contractions of any axes in any order. */
export const contractionLayouts: fc.Arbitrary<ContractionLayout> = axes.chain((drawn) => {
  const named = drawn.map((axis, index) => ({ ...axis, name: `n${index}` }));
  const side = (which: Side) => {
    const own = named.filter(({ place }) => place.includes(which));
    return fc.shuffledSubarray(own, { minLength: own.length });
  };
  const shape = (side: typeof named) =>
    side.map(({ name, size, isSymbolic }) => (isSymbolic ? symbol(name) : size));
  const names = (side: typeof named) => side.map(({ name }) => name).join(' ');
  return fc
    .record({
      ...{ left: side('left'), right: side('right'), output: side('output') },
      scale: fc.constantFrom(1, 0.5, -2),
    })
    .map(({ left, right, output, scale }) => {
      const equation = `${names(left)}, ${names(right)} -> ${names(output)}`;
      return {
        equation,
        tensor: contract(input('x', shape(left)), input('y', shape(right)), equation, scale),
        sizes: Object.fromEntries(named.map(({ name, size }) => [name, size])),
      };
    });
});
