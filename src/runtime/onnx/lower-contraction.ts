/**
 * A contraction as one (Fused)MatMul. Axes fall into four groups: batch (in all three), rows (left and output),
 * columns (right and output) and inner (left and right). FusedMatMul reads each side in four layouts without copying:
 *
 *   [batch, rows, inner]   as it is             [rows, batch, inner]   transBatch
 *   [batch, inner, rows]   trans                [inner, batch, rows]   transBatch and trans
 *
 * so most contractions of a transformer and of its gradient need no transposition. Axes of length 1 stand anywhere.
 */
import type { Shape } from '../../graph/dimension.js';
import { countElements } from '../../graph/dimension.js';
import type { TensorOf } from '../../graph/tensor.js';
import type { OnnxBuilder } from './builder.js';

type Names = readonly string[];

interface Layout {
  readonly transposed: boolean;
  readonly batchInside: boolean;
  readonly order: Names | undefined; // a transposition that is needed first
}

const same = (left: Names, right: Names): boolean =>
  left.length === right.length && left.every((name, index) => name === right[index]);

/** How a side with axes `names` can be read as [batch, outer, inner]. */
function findLayout(names: Names, batch: Names, outer: Names, inner: Names): Layout {
  const read = (transposed: boolean, batchInside: boolean): Layout => ({
    transposed,
    batchInside,
    order: undefined,
  });
  if (same(names, [...batch, ...outer, ...inner])) return read(false, false);
  if (same(names, [...batch, ...inner, ...outer])) return read(true, false);
  if (same(names, [...outer, ...batch, ...inner])) return read(false, true);
  if (same(names, [...inner, ...batch, ...outer])) return read(true, true);
  return { ...read(false, false), order: [...batch, ...outer, ...inner] };
}

interface Plan {
  readonly swapped: boolean;
  readonly batch: Names;
  readonly rows: Names;
  readonly columns: Names;
  readonly inner: Names;
  readonly left: Layout;
  readonly right: Layout;
  readonly transpositions: number;
}

function choosePlan(left: Names, right: Names, output: Names): Plan {
  const common = left.filter((name) => right.includes(name));
  const batch = common.filter((name) => output.includes(name));
  const plans: Plan[] = [];
  for (const swapped of [false, true]) {
    const [first, second] = swapped ? [right, left] : [left, right];
    const inResult = (names: Names): Names => output.filter((name) => names.includes(name));
    const rows = inResult(first.filter((name) => !second.includes(name)));
    const columns = inResult(second.filter((name) => !first.includes(name)));
    for (const batchOrder of [inResult(batch), batch]) {
      for (const innerSource of [first, second]) {
        const inner = innerSource.filter((name) => common.includes(name) && !output.includes(name));
        const leftLayout = findLayout(first, batchOrder, rows, inner);
        const rightLayout = findLayout(second, batchOrder, columns, inner);
        const finalOrder = same([...batchOrder, ...rows, ...columns], output) ? 0 : 1;
        const transpositions =
          Number(leftLayout.order !== undefined) + Number(rightLayout.order !== undefined);
        plans.push({
          swapped,
          batch: batchOrder,
          rows,
          columns,
          inner,
          left: leftLayout,
          right: rightLayout,
          transpositions: transpositions + finalOrder,
        });
      }
    }
  }
  return plans.reduce((best, plan) => (plan.transpositions < best.transpositions ? plan : best));
}

export function lowerContraction(builder: OnnxBuilder, node: TensorOf<'contract'>, inputs: Names): string {
  const { left, right, output, scale } = node.attributes;
  const direct = lowerMatrixProduct(builder, node, inputs);
  if (direct !== undefined) return direct;

  const sizes = new Map<string, Shape[number]>();
  left.forEach((name, axis) => sizes.set(name, node.inputs[0]!.shape[axis]!));
  right.forEach((name, axis) => sizes.set(name, node.inputs[1]!.shape[axis]!));
  const isReal = (name: string): boolean => sizes.get(name) !== 1;
  const shapeOf = (names: Names): Shape => names.map((name) => sizes.get(name)!);
  const plan = choosePlan(left.filter(isReal), right.filter(isReal), output.filter(isReal));

  const sides = plan.swapped ? ([1, 0] as const) : ([0, 1] as const);
  const [leftName, rightName] = sides.map((side, index) => {
    const names = (side === 0 ? left : right).filter(isReal);
    const layout = index === 0 ? plan.left : plan.right;
    const outer = index === 0 ? plan.rows : plan.columns;
    return arrangeSide(builder, {
      value: inputs[side]!,
      names,
      layout,
      outer,
      plan,
      shapeOf,
    });
  });
  const hasBatch = plan.batch.length > 0;
  const leftFlags = flags(plan.left, false, hasBatch);
  const rightFlags = flags(plan.right, true, hasBatch);
  const product = multiplyMatrices(builder, [leftName!, rightName!], {
    transA: leftFlags.trans,
    transB: rightFlags.trans,
    transBatchA: leftFlags.transBatch,
    transBatchB: rightFlags.transBatch,
    scale,
  });
  const groups = [...(hasBatch ? [plan.batch] : []), plan.rows, plan.columns];
  builder.learnShape(
    product,
    groups.map((group) => countElements(shapeOf(group))),
  );
  const natural = groups.flat();
  const wanted = output.filter(isReal);
  if (same(natural, wanted)) return builder.reshape(product, node.shape);
  const unmerged = builder.reshape(product, shapeOf(natural));
  const perm = wanted.map((name) => natural.indexOf(name));
  return builder.reshape(builder.node('Transpose', [unmerged], { attributes: { perm } }), node.shape);
}

/** The plain case, [..., inner] times a matrix in either order, needs no reshaping at all. */
function lowerMatrixProduct(
  builder: OnnxBuilder,
  node: TensorOf<'contract'>,
  inputs: Names,
): string | undefined {
  const { left, right, output, scale } = node.attributes;
  const inner = left.at(-1);
  if (right.length !== 2 || inner === undefined || !same(output.slice(0, -1), left.slice(0, -1)))
    return undefined;
  const column = output.at(-1)!;
  const transB = same(right, [column, inner]) ? 1 : same(right, [inner, column]) ? 0 : undefined;
  if (transB === undefined || left.length < 2) return undefined;
  return multiplyMatrices(builder, inputs, { transA: 0, transB, transBatchA: 0, transBatchB: 0, scale });
}

interface Side {
  readonly value: string;
  readonly names: Names;
  readonly layout: Layout;
  readonly outer: Names;
  readonly plan: Plan;
  readonly shapeOf: (names: Names) => Shape;
}

/** Transposes if it must, then merges each group of axes into one. */
function arrangeSide(builder: OnnxBuilder, side: Side): string {
  const { layout, outer, plan, shapeOf } = side;
  let value = side.value;
  if (layout.order !== undefined) {
    value = builder.reshape(value, shapeOf(side.names));
    const perm = layout.order.map((name) => side.names.indexOf(name));
    value = builder.node('Transpose', [value], { attributes: { perm } });
  }
  const [first, last] = layout.transposed ? [plan.inner, outer] : [outer, plan.inner];
  const groups =
    plan.batch.length === 0
      ? [first, last]
      : layout.batchInside
        ? [first, plan.batch, last]
        : [plan.batch, first, last];
  const merged = groups.map((group) => countElements(shapeOf(group)));
  return builder.reshape(value, merged);
}

function flags(layout: Layout, isRight: boolean, hasBatch: boolean) {
  // The right side is wanted as [batch, inner, columns], so "outer before inner" is its transposed form.
  return { trans: Number(layout.transposed !== isRight), transBatch: Number(hasBatch && layout.batchInside) };
}

interface ProductOptions {
  readonly transA: number;
  readonly transB: number;
  readonly transBatchA: number;
  readonly transBatchB: number;
  readonly scale: number;
}

function multiplyMatrices(builder: OnnxBuilder, inputs: Names, options: ProductOptions): string {
  const { scale, ...transposed } = options;
  const isPlain = scale === 1 && Object.values(transposed).every((flag) => flag === 0);
  if (isPlain) return builder.node('MatMul', inputs);
  return builder.node('FusedMatMul', inputs, {
    domain: 'com.microsoft',
    attributes: { ...transposed, alpha: { float: scale } },
  });
}
