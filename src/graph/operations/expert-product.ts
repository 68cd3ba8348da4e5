/**
 * Products with one of several matrices per row, chosen by index: the experts of a mixture. Their matrices stand side
 * by side in one table, so it is stored, uploaded and converted like any other matrix.
 */
import { multiplyDimensions, type Dimension } from '../dimension.js';
import { type GradientRules, type Tensor, createTensor, refuse, requireDType } from '../tensor.js';
import { contract } from './contraction.js';
import { multiply } from './elementwise.js';
import { oneHot } from './indexing.js';
import { reshape } from './shaping.js';

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
