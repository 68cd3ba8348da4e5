/**
 * Cheaper products with inputs that do not learn. An EAGLE-3 head multiplies [norm(embedding); norm(feature)] with its
 * projections once per draft level. The embeddings are frozen, and each level reads the same ones, shifted by a token. So
 *
 *   [norm(e); f] W    becomes    norm(e) W_e + f W_f
 *   (scale * x) W     becomes    x (scale * W), so the gradient of the scale needs no gradient of the rows
 *   rows(x) W         becomes    rows(x W), so all levels share one product and one weight gradient
 *
 * wherever x does not depend on a trained weight. The sums are the same in another order.
 *
 * Where several levels learn one distribution t, which sums to 1, the cross-entropy of the logits h W passes over the
 * vocabulary only once per level. With p = softmax(h W):
 *
 *   sum(t log p)      becomes    <h, t W'> - <h, p W'> - entropy(p)
 *
 * All levels share t W', and the gradient needs p W' anyway. The gradient takes p and entropy(p) as constants: what a
 * change of p adds to <h, p W'>, it takes from entropy(p).
 */
import { contract } from '../../graph/operations/contraction.js';
import { add, logarithm, multiply, stopGradient, subtract } from '../../graph/operations/elementwise.js';
import { constant, sortTopologically, type Tensor, type TensorOf } from '../../graph/tensor.js';
import { reduceMaximum, rmsNorm, softmax, sum } from '../../graph/operations/reductions.js';
import { reshape, slice } from '../../graph/operations/shaping.js';
import { type RewriteRule, rewrite } from '../../graph/simplify.js';

export function shareFrozenProducts(
  outputs: Readonly<Record<string, Tensor>>,
  trained: ReadonlySet<string>,
): Readonly<Record<string, Tensor>> {
  const known = new Map<Tensor, boolean>();
  const isFrozen = (tensor: Tensor): boolean => {
    const found = known.get(tensor);
    if (found !== undefined) return found;
    const isWeight = tensor.operation === 'weight' && trained.has(tensor.attributes.name);
    const frozen = !isWeight && tensor.inputs.every(isFrozen);
    known.set(tensor, frozen);
    return frozen;
  };
  const isScaledFrozen = (tensor: Tensor): boolean =>
    tensor.operation === 'rmsNorm' && isFrozen(tensor.inputs[0]!) && !isFrozen(tensor.inputs[1]!);

  const splitProduct: RewriteRule = (tensor) => {
    if (!isRowProduct(tensor)) return undefined;
    const [rows, matrix] = tensor.inputs as [Tensor, Tensor];
    if (rows.operation !== 'concatenate' || rows.attributes.axis !== rows.shape.length - 1) return undefined;
    if (!rows.inputs.some(isScaledFrozen)) return undefined;
    let start = 0;
    const products = rows.inputs.map((part) => {
      const end = start + (part.shape.at(-1) as number);
      const product = multiplyRows(tensor, part, slice(matrix, 0, start, end));
      start = end;
      return product;
    });
    return products.reduce((left, right) => add(left, right));
  };

  const moveScale: RewriteRule = (tensor) => {
    if (!isRowProduct(tensor)) return undefined;
    const [rows, matrix] = tensor.inputs as [Tensor, Tensor];
    if (rows.operation !== 'rmsNorm' || !isScaledFrozen(rows)) return undefined;
    const [x, scale] = rows.inputs as [Tensor, Tensor];
    const width = scale.shape[0] as number;
    const ones = constant(
      Array.from({ length: width }, () => 1),
      [width],
    );
    const scaled = multiply(reshape(scale, [width, 1]), matrix);
    return multiplyRows(tensor, rmsNorm(x, ones, rows.attributes.epsilon), scaled);
  };

  const sliceNorm: RewriteRule = (tensor) => {
    if (tensor.operation !== 'rmsNorm' || !isFrozen(tensor)) return undefined;
    const [x, scale] = tensor.inputs as [Tensor, Tensor];
    return moveSlice(x, (whole) => rmsNorm(whole, scale, tensor.attributes.epsilon));
  };

  const sliceProduct: RewriteRule = (tensor) => {
    if (!isRowProduct(tensor)) return undefined;
    const [rows, matrix] = tensor.inputs as [Tensor, Tensor];
    if (!isFrozen(rows) || isFrozen(matrix)) return undefined;
    return moveSlice(rows, (whole) => multiplyRows(tensor, whole, matrix));
  };

  const findEntropy = (tensor: Tensor) => {
    const [product] = tensor.inputs;
    if (tensor.operation !== 'sum' || product?.operation !== 'multiply') return undefined;
    if (tensor.attributes.axes.join() !== String(tensor.shape.length - 1)) return undefined;
    const [shares, scores] = product.inputs as [Tensor, Tensor];
    // A slice of rows still sums to 1, one of tokens does not.
    const isSlice = shares.operation === 'slice' && shares.attributes.axis !== shares.shape.length - 1;
    const whole = isSlice ? shares.inputs[0]! : shares;
    if (whole.operation !== 'softmax' || !isFrozen(whole) || scores.operation !== 'logSoftmax')
      return undefined;
    const logits = scores.inputs[0]!;
    return isRowProduct(logits) ? { shares, logits } : undefined;
  };
  const levels = sortTopologically(Object.values(outputs)).filter(
    (tensor) => findEntropy(tensor) !== undefined,
  );

  const splitEntropy: RewriteRule = (tensor) => {
    const entropy = findEntropy(tensor);
    if (entropy === undefined || levels.length < 2) return undefined;
    const { shares, logits } = entropy;
    const [rows, matrix] = logits.inputs as [Tensor, Tensor];
    const { left, right, output, scale } = logits.attributes;
    const equation = `${output.join(' ')}, ${right.join(' ')} -> ${left.join(' ')}`;
    const embed = (weights: Tensor): Tensor => contract(weights, matrix, equation, scale);
    const along = (embedded: Tensor): Tensor => sum(multiply(rows, embedded), [-1]);
    const probabilities = stopGradient(softmax(logits));
    const taught = along(moveSlice(shares, embed) ?? embed(shares));
    const own = along(embed(probabilities));
    // log(sum(exp(x))) from the largest value and its probability.
    const normalizer = subtract(reduceMaximum(logits), logarithm(reduceMaximum(probabilities)));
    return subtract(subtract(taught, own), stopGradient(subtract(normalizer, own)));
  };

  return rewrite(outputs, [splitProduct, moveScale, sliceNorm, sliceProduct, splitEntropy]);
}

/** [..., rows, inner] times [inner, columns]. */
function isRowProduct(tensor: Tensor): tensor is TensorOf<'contract'> {
  if (tensor.operation !== 'contract') return false;
  const { left, right, output } = tensor.attributes;
  return (
    right.length === 2 &&
    left.at(-1) === right[0] &&
    output.at(-1) === right[1] &&
    left.length === output.length &&
    left.slice(0, -1).every((name, axis) => name === output[axis])
  );
}

function multiplyRows({ attributes }: TensorOf<'contract'>, rows: Tensor, matrix: Tensor): Tensor {
  const { left, right, output, scale } = attributes;
  return contract(rows, matrix, `${left.join(' ')}, ${right.join(' ')} -> ${output.join(' ')}`, scale);
}

function moveSlice(x: Tensor, compute: (whole: Tensor) => Tensor): Tensor | undefined {
  if (x.operation !== 'slice' || x.attributes.axis === x.shape.length - 1) return undefined;
  const { axis, start, end } = x.attributes;
  return slice(compute(x.inputs[0]!), axis, start, end);
}
