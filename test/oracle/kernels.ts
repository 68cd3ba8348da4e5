/** The definition of each operation. If a runtime differs from this table, the table is right. */
import { MistletoeError } from '../../src/core/errors.js';
import { isHalf, roundToHalf } from '../../src/core/half-floats.js';
import { largest } from '../../src/core/vector.js';
import type { Dimension } from '../../src/graph/dimension.js';
import { largestUniform } from '../../src/graph/operations/indexing.js';
import type { OperationName, Tensor, TensorOf } from '../../src/graph/tensor.js';
import { runAttention } from './attention-kernel.js';
import type { DenseValue, Index } from './dense-value.js';
import { countValues, fill, mapRows, positionOf, read, readRepeated, visitIndices } from './dense-value.js';

export interface KernelContext {
  readonly shape: readonly number[]; // of the result
  readonly resolve: (dimension: Dimension) => number;
}

type Kernel<Name extends OperationName> = (
  node: TensorOf<Name>,
  inputs: readonly DenseValue[],
  context: KernelContext,
) => Float64Array;

type Leaf = 'input' | 'weight';

const elementwise =
  (apply: (...values: number[]) => number) =>
  (node: Tensor, inputs: readonly DenseValue[], { shape }: KernelContext): Float64Array => {
    const finish = node.dtype === 'int32' ? (value: number) => value | 0 : (value: number) => value;
    return fill(shape, (index) => finish(apply(...inputs.map((value) => readRepeated(value, index)))));
  };

const logistic = (x: number): number => 1 / (1 + Math.exp(-x));

function softmaxRow(row: Float64Array): Float64Array {
  const top = largest(row);
  const powers = row.map((value) => Math.exp(value - top));
  const total = powers.reduce((a, b) => a + b, 0);
  return powers.map((power) => power / total);
}

function logSoftmaxRow(row: Float64Array): Float64Array {
  const top = largest(row);
  const total = row.reduce((sum, value) => sum + Math.exp(value - top), 0);
  return row.map((value) => value - top - Math.log(total));
}

/** Descending; the lower position first at a tie. */
function rank(operation: string, row: Float64Array, count: number): readonly number[] {
  if (row.length < count) {
    throw new MistletoeError('runtime', `${operation}: cannot take ${count} of ${row.length} values.`);
  }
  return Array.from(row.keys())
    .sort((a, b) => row[b]! - row[a]! || a - b)
    .slice(0, count);
}

function checkIndex(operation: string, index: number, length: number): number {
  if (index >= 0 && index < length) return index;
  throw new MistletoeError('runtime', `${operation}: index ${index} lies outside 0 to ${length - 1}.`);
}

export const kernels: { readonly [Name in Exclude<OperationName, Leaf>]: Kernel<Name> } = {
  constant: ({ attributes, dtype }) =>
    Float64Array.from(attributes.values, (value) => (isHalf(dtype) ? roundToHalf(value, dtype) : value)),

  negate: elementwise((x) => -x),
  exponential: elementwise((x) => Math.exp(x)),
  logarithm: elementwise((x) => Math.log(x)),
  reciprocalSquareRoot: elementwise((x) => 1 / Math.sqrt(x)),
  sigmoid: elementwise((x) => logistic(x)),
  silu: elementwise((x) => x * logistic(x)),
  stopGradient: elementwise((x) => x),
  cast: ({ attributes: { dtype } }, [x]) =>
    x!.data.map((value) => {
      if (isHalf(dtype)) return roundToHalf(value, dtype);
      return dtype === 'bool' ? Number(value !== 0) : dtype === 'int32' ? value | 0 : value;
    }),

  add: elementwise((a, b) => a + b),
  subtract: elementwise((a, b) => a - b),
  multiply: (node, inputs, context) =>
    node.dtype === 'int32'
      ? elementwise((a, b) => Math.imul(a, b))(node, inputs, context)
      : elementwise((a, b) => a * b)(node, inputs, context),
  divide: elementwise((a, b) => a / b),
  maximum: elementwise((a, b) => Math.max(a, b)),
  minimum: elementwise((a, b) => Math.min(a, b)),
  greater: elementwise((a, b) => Number(a > b)),
  equal: elementwise((a, b) => Number(a === b)),
  select: elementwise((condition, a, b) => (condition !== 0 ? a : b)),

  contract: ({ attributes: { left, right, output, scale } }, [a, b], { shape }) => {
    const sizes = new Map<string, number>();
    left.forEach((name, axis) => sizes.set(name, a!.shape[axis]!));
    right.forEach((name, axis) => sizes.set(name, b!.shape[axis]!));
    const inner = left.filter((name) => !output.includes(name));
    const names = [...output, ...inner];
    const [leftPlaces, rightPlaces] = [left, right].map((side) => side.map((name) => names.indexOf(name)));
    const place = (places: readonly number[], index: Index): Index => places.map((at) => index[at]!);
    return fill(shape, (outer) => {
      let total = 0;
      visitIndices(
        inner.map((name) => sizes.get(name)!),
        (summed) => {
          const index = [...outer, ...summed];
          total += read(a!, place(leftPlaces!, index)) * read(b!, place(rightPlaces!, index));
        },
      );
      return scale * total;
    });
  },
  expertProduct: ({ attributes: { count, transposed } }, [rows, table, chosen], { shape }) => {
    const width = table!.shape[1]! / count;
    return fill(shape, ([row, column]) => {
      const first = checkIndex('expertProduct', chosen!.data[row!]!, count) * width;
      const terms = Array.from({ length: rows!.shape[1]! }, (_, at) => {
        const place = transposed ? [column!, first + at] : [at, first + column!];
        return read(rows!, [row!, at]) * read(table!, place);
      });
      return terms.reduce((sum, term) => sum + term, 0);
    });
  },
  attention: runAttention,

  reshape: (_, [x]) => x!.data.slice(),
  transpose: ({ attributes: { order } }, [x], { shape }) =>
    fill(shape, (index) =>
      read(
        x!,
        x!.shape.map((_, axis) => index[order.indexOf(axis)]!),
      ),
    ),
  broadcast: (_, [x], { shape }) => fill(shape, (index) => readRepeated(x!, index)),
  slice: ({ attributes }, [x], { shape, resolve }) => {
    const { axis } = attributes;
    const [start, end] = [resolve(attributes.start), resolve(attributes.end)];
    if (start < 0 || end < start || end > x!.shape[axis]!) {
      const message = `slice: positions ${start} to ${end} lie outside the ${x!.shape[axis]!} of axis ${axis}.`;
      throw new MistletoeError('runtime', message);
    }
    return fill(shape, (index) => read(x!, index.with(axis, index[axis]! + start)));
  },
  pad: ({ attributes }, [x], { shape, resolve }) => {
    const { axis } = attributes;
    const before = resolve(attributes.before);
    return fill(shape, (index) => {
      const at = index[axis]! - before;
      return at >= 0 && at < x!.shape[axis]! ? read(x!, index.with(axis, at)) : 0;
    });
  },
  concatenate: ({ attributes: { axis } }, inputs, { shape }) =>
    fill(shape, (index) => {
      let at = index[axis]!;
      const part = inputs.find((value) => {
        if (at < value.shape[axis]!) return true;
        at -= value.shape[axis]!;
        return false;
      })!;
      return read(part, index.with(axis, at));
    }),

  sum: ({ attributes: { axes } }, [x], { shape }) => {
    const data = new Float64Array(countValues(shape));
    visitIndices(x!.shape, (index, position) => {
      const kept = index.map((at, axis) => (axes.includes(axis) ? 0 : at));
      data[positionOf(shape, kept)]! += x!.data[position]!;
    });
    return data;
  },
  reduceMaximum: (_, [x]) => mapRows(x!, (row) => [largest(row)]),
  softmax: (_, [x]) => mapRows(x!, softmaxRow),
  logSoftmax: (_, [x]) => mapRows(x!, logSoftmaxRow),
  rmsNorm: ({ attributes: { epsilon } }, [x, scale]) =>
    mapRows(x!, (row) => {
      const meanSquare = row.reduce((sum, value) => sum + value * value, 0) / row.length;
      return row.map((value, at) => (value / Math.sqrt(meanSquare + epsilon)) * scale!.data[at]!);
    }),
  rotate: (_, [x, cosine, sine], { shape }) => {
    const half = cosine!.shape[1]!;
    const last = shape.length - 1;
    return fill(shape, (index) => {
      const at = index[last]! % (2 * half); // within the head
      const start = index[last]! - at;
      const pair = at % half;
      const [c, s] = [cosine!, sine!].map((angles) => read(angles, [index[1]!, pair])) as [number, number];
      const first = read(x!, index.with(last, start + pair));
      const second = read(x!, index.with(last, start + pair + half));
      return at < half ? first * c - second * s : second * c + first * s;
    });
  },

  gatherRows: (_, [table, indices]) => {
    const [rows, ...rest] = table!.shape;
    const width = countValues(rest);
    const picked = Array.from(indices!.data, (row) => {
      const start = checkIndex('gatherRows', row, rows!) * width;
      return Array.from(table!.data.subarray(start, start + width));
    });
    return Float64Array.from(picked.flat());
  },
  scatterAddRows: (_, [, indices, values], { shape }) => {
    const [rows, ...rest] = shape;
    const width = countValues(rest);
    const data = new Float64Array(countValues(shape));
    indices!.data.forEach((row, at) => {
      const start = checkIndex('scatterAddRows', row, rows!) * width;
      for (let column = 0; column < width; column++) {
        data[start + column]! += values!.data[at * width + column]!;
      }
    });
    return data;
  },
  pick: (_, [x, indices]) =>
    mapRows(x!, (row, at) => [row[checkIndex('pick', indices!.data[at]!, row.length)]!]),
  oneHot: (_, [indices], { shape }) => {
    const depth = shape.at(-1)!;
    const data = new Float64Array(countValues(shape));
    indices!.data.forEach((one, at) => {
      data[at * depth + checkIndex('oneHot', one, depth)] = 1;
    });
    return data;
  },
  argmax: (_, [x]) => mapRows(x!, (row) => rank('argmax', row, 1)),
  topValues: ({ attributes: { count } }, [x]) =>
    mapRows(x!, (row) => rank('topValues', row, count).map((at) => row[at]!)),
  topIndices: ({ attributes: { count } }, [x]) => mapRows(x!, (row) => rank('topIndices', row, count)),

  keepLikeliest: (_, [x, count, mass]) =>
    mapRows(x!, (row, at) => {
      const wanted = Math.max(1, Math.min(row.length, count!.data[at]!));
      const ranked = rank('keepLikeliest', row, wanted);
      const shares = softmaxRow(Float64Array.from(ranked, (place) => row[place]!));
      const kept = new Float64Array(row.length).fill(-Infinity);
      let before = 0;
      ranked.forEach((place, position) => {
        if (position === 0 || mass!.data[at]! >= 1 || before < mass!.data[at]!) kept[place] = row[place]!;
        before += shares[position]!;
      });
      return kept;
    }),
  draw: (_, [weights, uniform]) =>
    mapRows(weights!, (row, at) => {
      const total = row.reduce((sum, weight) => sum + weight, 0);
      const wanted = Math.min(uniform!.data[at]!, largestUniform) * total;
      let running = 0;
      return [row.findIndex((weight) => (running += weight) > wanted)];
    }),
};

export function runKernel(
  node: Exclude<Tensor, TensorOf<Leaf>>,
  inputs: readonly DenseValue[],
  context: KernelContext,
): DenseValue {
  // The compiler cannot follow the union of name and kernel pairs.
  const kernel = kernels[node.operation] as unknown as Kernel<OperationName>;
  const data = kernel(node, inputs, context);
  if (data.length !== countValues(context.shape)) {
    const expected = countValues(context.shape);
    throw new Error(`The ${node.operation} kernel made ${data.length} values, its shape says ${expected}.`);
  }
  return { shape: context.shape, data };
}
