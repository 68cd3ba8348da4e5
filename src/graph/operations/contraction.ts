/**
 * One product for all: matrix products, attention scores and their gradients are sums of products over named axes.
 * Every name stands in at least two of left, right and output, so the gradient of a contraction is a contraction.
 */
import type { Dimension } from '../dimension.js';
import { equalDimensions, formatDimension, formatShape, multiplyDimensions } from '../dimension.js';
import type { Contraction, GradientRules, Tensor } from '../tensor.js';
import { createTensor, refuse, requireDType } from '../tensor.js';
import { multiply } from './elementwise.js';
import { oneHot } from './indexing.js';
import { reshape } from './shaping.js';

/**
 * @example contract(queries, keys, 'batch row head i, batch column head i -> batch head row column')
 */
export function contract(left: Tensor, right: Tensor, equation: string, scale = 1): Tensor {
  const match = /^([^,]*),([^,]*)->([^,]*)$/.exec(equation);
  if (match === null) return refuse('contract', `cannot read the equation "${equation}"`, [left, right]);
  const [leftNames, rightNames, output] = match
    .slice(1)
    .map((part) => part.trim().split(/\s+/).filter(Boolean));
  return createContraction('contract', left, right, {
    left: leftNames!,
    right: rightNames!,
    output: output!,
    scale,
  });
}

/** [..., rows, inner] times [inner, columns] or [..., inner, columns]. */
export function matmul(left: Tensor, right: Tensor): Tensor {
  const leading = left.shape.slice(0, -2).map((_, axis) => `batch${axis}`);
  const inner = [left.shape.at(-1), right.shape.at(-2)];
  if (left.shape.length < 2 || right.shape.length < 2 || inner[0] === undefined || inner[1] === undefined) {
    return refuse('matmul', 'needs two matrices', [left, right]);
  }
  if (!equalDimensions(inner[0], inner[1])) {
    const pair = inner.map((dimension) => formatDimension(dimension!)).join(' and ');
    refuse('matmul', `inner dimensions ${pair} differ`, [left, right]);
  }
  if (right.shape.length !== 2 && right.shape.length !== left.shape.length) {
    refuse('matmul', 'the right side must be one matrix or one for each of the left', [left, right]);
  }
  return createContraction('matmul', left, right, {
    left: [...leading, 'row', 'inner'],
    right: [...(right.shape.length === 2 ? [] : leading), 'inner', 'column'],
    output: [...leading, 'row', 'column'],
    scale: 1,
  });
}

function createContraction(operation: string, left: Tensor, right: Tensor, equation: Contraction): Tensor {
  const inputs = [left, right];
  const sizes = new Map<string, Dimension>();
  const count = new Map<string, number>();
  for (const [tensor, names] of [
    [left, equation.left],
    [right, equation.right],
  ] as const) {
    requireDType(operation, tensor, 'float32');
    if (names.length !== tensor.shape.length) {
      refuse(
        operation,
        `"${names.join(' ')}" names ${names.length} axes of ${formatShape(tensor.shape)}`,
        inputs,
      );
    }
    refuseRepeated(operation, names, inputs);
    names.forEach((name, axis) => {
      const size = tensor.shape[axis]!;
      const known = sizes.get(name);
      if (known !== undefined && !equalDimensions(known, size)) {
        refuse(operation, `axis "${name}" is ${formatDimension(known)} and ${formatDimension(size)}`, inputs);
      }
      sizes.set(name, size);
      count.set(name, (count.get(name) ?? 0) + 1);
    });
  }
  refuseRepeated(operation, equation.output, inputs);
  for (const name of equation.output) count.set(name, (count.get(name) ?? 0) + 1);
  const lonely = [...count].find(([, times]) => times < 2);
  if (lonely !== undefined) refuse(operation, `axis "${lonely[0]}" stands in one place only`, inputs);
  const shape = equation.output.map(
    (name) => sizes.get(name) ?? refuse(operation, `axis "${name}" is unknown`, inputs),
  );
  return createTensor('contract', inputs, equation, { shape, dtype: 'float32' });
}

function refuseRepeated(operation: string, names: readonly string[], inputs: readonly Tensor[]): void {
  const repeated = names.find((name, index) => names.indexOf(name) !== index);
  if (repeated !== undefined) {
    refuse(operation, `axis "${repeated}" stands twice in "${names.join(' ')}"`, inputs);
  }
}

export const contractionGradients: GradientRules<'contract'> = {
  contract: ({ inputs: [left, right], attributes: names }, g) => [
    createContraction('gradient of contract', g, right!, {
      ...names,
      left: names.output,
      output: names.left,
    }),
    createContraction('gradient of contract', left!, g, {
      ...names,
      right: names.output,
      output: names.right,
    }),
  ],
};

/**
 * Products with one of several matrices per row, chosen by index: the experts of a mixture. Their matrices stand side
 * by side in one table, so it is stored, uploaded and converted like any other matrix.
 */

/**
 * Row r times matrix chosen[r] of the table, or times its transpose.
 * rows [row, in], table [in, count * out], chosen [row] -> [row, out]; transposed: rows [row, out] -> [row, in]
 */
export function expertProduct(
  rows: Tensor,
  table: Tensor,
  chosen: Tensor,
  count: number,
  transposed = false,
): Tensor {
  const inputs = [rows, table, chosen];
  for (const tensor of [rows, table]) requireDType('expertProduct', tensor, 'float32');
  requireDType('expertProduct', chosen, 'int32');
  const [inner, columns] = table.shape;
  if (table.shape.length !== 2 || typeof inner !== 'number' || typeof columns !== 'number')
    return refuse('expertProduct', 'needs a table of fixed size', inputs);
  if (!Number.isInteger(count) || count < 1 || columns % count !== 0)
    refuse('expertProduct', `${columns} columns are not ${count} matrices`, inputs);
  const width = columns / count;
  const [from, to] = transposed ? [width, inner] : [inner, width];
  if (rows.shape.length !== 2 || rows.shape[1] !== from)
    refuse('expertProduct', `needs rows of ${from} values`, inputs);
  if (chosen.shape.length !== 1) refuse('expertProduct', 'needs one index for each row', inputs);
  return createTensor(
    'expertProduct',
    inputs,
    { count, transposed },
    { shape: [rows.shape[0]!, to], dtype: 'float32' },
  );
}

export const expertGradients: GradientRules<'expertProduct'> = {
  expertProduct: ({ inputs: [rows, table, chosen], attributes: { count, transposed } }, g) => {
    const ofRows = expertProduct(g, table!, chosen!, count, !transposed);
    // The side that multiplies the matrices' columns is spread to the columns of the chosen matrix.
    const [inner, outer] = transposed ? [g, rows!] : [rows!, g];
    const [length, width] = outer.shape as [Dimension, number];
    const places = reshape(oneHot(chosen!, count), [length, count, 1]);
    const spread = reshape(multiply(places, reshape(outer, [length, 1, width])), [
      length,
      multiplyDimensions(count, width),
    ]);
    return [ofRows, contract(inner, spread, 'row inner, row column -> inner column'), undefined];
  },
};
