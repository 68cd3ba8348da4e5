/**
 * A contraction as one product of matrices. Axes fall into four groups: batch (in both sides and in the output), rows
 * (left and output), columns (right and output) and inner (both sides only). Kernels for stacks of matrices, such as
 * ONNX Runtime's FusedMatMul and cuBLAS's strided batches, read each side in four layouts without copying:
 *
 *   [batch, rows, inner]   [batch, inner, rows]   [rows, batch, inner]   [inner, batch, rows]
 *
 * so most contractions of a transformer and of its gradient need no transposition. The plan merges each group into one
 * axis and transposes only what fits none of the four. Axes of length 1 stand anywhere and do not count. Where nothing
 * is summed, or nothing but products of equal axes, there is no matrix, and elements are multiplied instead.
 */
import { countElements, type Shape } from './dimension.js';
import { contract } from './operations/contraction.js';
import { multiply } from './operations/elementwise.js';
import { sum } from './operations/reductions.js';
import { reshape, transpose } from './operations/shaping.js';
import type { Contraction, Tensor } from './tensor.js';

type Names = readonly string[];

/** How one side of a product lies: [batch, outer, inner] if both are false. */
export interface SideLayout {
  readonly innerFirst: boolean;
  readonly batchInside: boolean;
}

const same = (left: Names, right: Names): boolean =>
  left.length === right.length && left.every((name, index) => name === right[index]);

const layouts: readonly SideLayout[] = [
  { innerFirst: false, batchInside: false },
  { innerFirst: true, batchInside: false },
  { innerFirst: false, batchInside: true },
  { innerFirst: true, batchInside: true },
];

/** The axes of a side in the order of its layout; groups without axes vanish. */
function arrange({ innerFirst, batchInside }: SideLayout, batch: Names, outer: Names, inner: Names): Names[] {
  const [first, last] = innerFirst ? [inner, outer] : [outer, inner];
  return batchInside ? [first, batch, last] : [batch, first, last];
}

function findLayout(names: Names, batch: Names, outer: Names, inner: Names): SideLayout | undefined {
  return layouts.find((layout) => same(names, arrange(layout, batch, outer, inner).flat()));
}

/**
 * The product that a contraction is, as it stands: matrices, stacks of them with one batch axis, or rows on any number
 * of axes times one matrix. Undefined if it must be planned first.
 */
export function readMatrixProduct({ left, right, output }: Contraction) {
  const column = output.slice(-1);
  const leading = output.slice(0, -1);
  if (right.length === 2 && left.length >= 2 && same(leading, left.slice(0, -1))) {
    const inner = left.slice(-1);
    const layout = same(right, [...inner, ...column])
      ? { innerFirst: true, batchInside: false }
      : same(right, [...column, ...inner])
        ? { innerFirst: false, batchInside: false }
        : undefined;
    return layout && { left: layouts[0]!, right: layout };
  }
  if (left.length !== right.length || left.length !== output.length || output.length > 3) return undefined;
  const batch = leading.slice(0, -1);
  const inner = left.filter((name) => !output.includes(name));
  const leftLayout = findLayout(left, batch, leading.slice(-1), inner);
  const rightLayout = findLayout(right, batch, column, inner);
  return leftLayout && rightLayout && { left: leftLayout, right: rightLayout };
}

interface Side {
  readonly tensor: Tensor;
  readonly names: Names; // without axes of length 1
}

/** A rewriting rule: every contraction that remains is one that readMatrixProduct reads. */
export function planContraction(tensor: Tensor): Tensor | undefined {
  if (tensor.operation !== 'contract' || readMatrixProduct(tensor.attributes) !== undefined) return undefined;
  const { attributes, inputs } = tensor;
  const sizes = new Map<string, Shape[number]>();
  attributes.left.forEach((name, axis) => sizes.set(name, inputs[0]!.shape[axis]!));
  attributes.right.forEach((name, axis) => sizes.set(name, inputs[1]!.shape[axis]!));
  const withoutOnes = (names: Names): Names => names.filter((name) => sizes.get(name) !== 1);
  const shapeOf = (names: Names): Shape => names.map((name) => sizes.get(name)!);
  const [left, right] = ([attributes.left, attributes.right] as const).map((names, index): Side => {
    const own = withoutOnes(names);
    return { tensor: reshape(inputs[index]!, shapeOf(own)), names: own };
  }) as [Side, Side];
  const output = withoutOnes(attributes.output);
  const { tensor: product, names } =
    multiplyElements(left, right, output, attributes.scale) ??
    multiplyMatrices(left, right, { output, scale: attributes.scale, shapeOf });
  return reshape(reorder(reshape(product, shapeOf(names)), names, output), tensor.shape);
}

function reorder(tensor: Tensor, from: Names, to: Names): Tensor {
  if (same(from, to)) return tensor;
  return transpose(
    tensor,
    to.map((name) => from.indexOf(name)),
  );
}

/** Without columns, rows and a sum over more than what is equal, products of elements are all there is. */
function multiplyElements(left: Side, right: Side, output: Names, scale: number): Side | undefined {
  const isSummed = left.names.some((name) => !output.includes(name));
  const isAligned =
    left.names.length === right.names.length && left.names.every((n) => right.names.includes(n));
  if (isSummed && !(isAligned && output.length > 0)) return undefined;
  const names = isSummed ? left.names : output;
  const spread = ({ tensor, names: own }: Side): Tensor => {
    const ordered = names.filter((name) => own.includes(name));
    const sizeOf = (name: string): Shape[number] =>
      own.includes(name) ? tensor.shape[own.indexOf(name)]! : 1;
    return reshape(reorder(tensor, own, ordered), names.map(sizeOf));
  };
  const scaled = scale === 1 ? spread(right) : multiply(spread(right), scale);
  const product = multiply(spread(left), scaled);
  if (!isSummed) return { tensor: product, names };
  const summed = names.flatMap((name, axis) => (output.includes(name) ? [] : [axis]));
  return { tensor: sum(product, summed), names: names.filter((name) => output.includes(name)) };
}

interface Plan {
  readonly left: Side;
  readonly right: Side;
  readonly groups: {
    readonly batch: Names;
    readonly rows: Names;
    readonly columns: Names;
    readonly inner: Names;
  };
  readonly leftLayout: SideLayout | undefined; // undefined: a transposition is needed first
  readonly rightLayout: SideLayout | undefined;
  readonly transpositions: number;
}

function choosePlan(left: Side, right: Side, output: Names): Plan {
  const common = left.names.filter((name) => right.names.includes(name));
  const shared = common.filter((name) => output.includes(name));
  const inResult = (names: Names): Names => output.filter((name) => names.includes(name));
  const plans = [
    [left, right],
    [right, left],
  ].flatMap(([first, second]) => {
    const rows = inResult(first!.names.filter((name) => !common.includes(name)));
    const columns = inResult(second!.names.filter((name) => !common.includes(name)));
    return [inResult(shared), shared].flatMap((batch) =>
      [first!, second!].map(({ names }): Plan => {
        const inner = names.filter((name) => common.includes(name) && !output.includes(name));
        const leftLayout = findLayout(first!.names, batch, rows, inner);
        const rightLayout = findLayout(second!.names, batch, columns, inner);
        const transpositions =
          Number(leftLayout === undefined) +
          Number(rightLayout === undefined) +
          Number(!same([...batch, ...rows, ...columns], output));
        const groups = { batch, rows, columns, inner };
        return { left: first!, right: second!, groups, leftLayout, rightLayout, transpositions };
      }),
    );
  });
  return plans.reduce((best, plan) => (plan.transpositions < best.transpositions ? plan : best));
}

interface ProductOptions {
  readonly output: Names;
  readonly scale: number;
  readonly shapeOf: (names: Names) => Shape;
}

function multiplyMatrices(left: Side, right: Side, { output, scale, shapeOf }: ProductOptions): Side {
  const plan = choosePlan(left, right, output);
  const { batch, rows, columns, inner } = plan.groups;
  const batchName = batch.length === 0 ? [] : ['batch'];
  const merge = (side: Side, outer: Names, layout: SideLayout | undefined): Tensor => {
    const groups = arrange(layout ?? layouts[0]!, batch, outer, inner);
    const ordered = layout === undefined ? reorder(side.tensor, side.names, groups.flat()) : side.tensor;
    const kept = batch.length === 0 ? groups.filter((group) => group !== batch) : groups;
    return reshape(
      ordered,
      kept.map((group) => countElements(shapeOf(group))),
    );
  };
  const name = (outer: string, layout: SideLayout | undefined): string =>
    arrange(layout ?? layouts[0]!, batchName, [outer], ['inner'])
      .flat()
      .join(' ');
  const equation = `${name('row', plan.leftLayout)}, ${name('column', plan.rightLayout)} -> ${batchName.join('')} row column`;
  return {
    tensor: contract(
      merge(plan.left, rows, plan.leftLayout),
      merge(plan.right, columns, plan.rightLayout),
      equation,
      scale,
    ),
    names: [...batch, ...rows, ...columns],
  };
}
