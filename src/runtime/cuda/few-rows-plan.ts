/**
 * Where a schedule can use kernels for few rows: products with a matrix of weights, each with what is computed of it
 * element by element if nobody else reads it, with another product of the same rows if both meet there (a gate), behind
 * an rmsNorm if that makes the rows, and beside other such products of the same rows. The steps that a kernel replaces
 * stay with it, for runs of more rows; a norm that nobody reads any more is left out of the run like every other step.
 */
import { countElements, equalDimensions, equalShapes } from '../../graph/dimension.js';
import type { Tensor } from '../../graph/tensor.js';
import { fuseAddends } from './addend-plan.js';
import type { FloatType } from './device.js';
import type { FindOperand } from './element-code.js';
import { isElementwise } from './element-code.js';
import { planFewRows } from './few-rows-kernel.js';
import type { FewRowsPart, FewRowsWork } from './few-rows-work.js';
import { elementsOfLoad, hasRoomForNorm, usualTuning } from './few-rows-work.js';
import { requireProduct } from './product-shape.js';
import type { FewRowsStep, KernelStep, Place, PlainStep, ProductStep, Step } from './step.js';
import { mostFewRows, readsOf } from './step.js';

/** Beyond two matrices, sums leave no registers for loads. */
const mostMatrices = 2;
/** Products of rows that are not there do cost something. */
const productForms: readonly number[] = [1, 2, mostFewRows];
/** Up to so many rows a block norms them by itself; more are normed once for all blocks. */
export const mostNormedRows = 2;

/** Products that make one tensor, and the step that makes it of them, if there is one. */
interface Unit {
  readonly products: readonly ProductStep[];
  readonly map: KernelStep | undefined;
  readonly first: number;
  readonly last: number;
}

export function fuseFewRows(
  steps: readonly PlainStep[],
  outputs: ReadonlySet<Place>,
  find: (tensor: Tensor) => Place | undefined,
): readonly Step[] {
  const positions = new Map<PlainStep, number>(steps.map((step, at) => [step, at]));
  const units = findUnits(steps, positions, outputs, find);
  const fused = new Map<number, FewRowsStep>();
  const gone = new Set<PlainStep>();
  for (const group of groupUnits(units, steps)) {
    const replaced = group.flatMap(unitSteps).sort((a, b) => positions.get(a)! - positions.get(b)!);
    for (const step of replaced) gone.add(step);
    const at = group.length === 1 ? group[0]!.last : Math.min(...group.map(({ first }) => first));
    fused.set(at, planGroup(group, fuseAddends(replaced, outputs, find, steps), find));
  }
  return steps.flatMap((step, at): Step[] => {
    const kernel = fused.get(at);
    return kernel !== undefined ? [kernel] : gone.has(step) ? [] : [step];
  });
}

const unitSteps = ({ products, map }: Unit): readonly PlainStep[] =>
  map === undefined ? products : [...products, map];

function findUnits(
  steps: readonly PlainStep[],
  positions: ReadonlyMap<PlainStep, number>,
  outputs: ReadonlySet<Place>,
  find: FindOperand,
): readonly Unit[] {
  const readers = new Map<object, PlainStep[]>();
  for (const step of steps)
    for (const { key } of readsOf(step)) readers.set(key, [...(readers.get(key) ?? []), step]);
  const behind = new Map<KernelStep, ProductStep[]>();
  const products = steps.filter((step): step is ProductStep => step.kind === 'product' && isSuitable(step));
  for (const product of products) {
    const [reader, ...others] = readers.get(product.result.key) ?? [];
    if (reader?.kind !== 'kernel' || !reader.isMap || others.length > 0 || outputs.has(product.result))
      continue;
    if (needsSamePlace(reader.result.tensor, product.tensor, find))
      behind.set(reader, [...(behind.get(reader) ?? []), product]);
  }
  const units: Unit[] = [];
  const taken = new Set<ProductStep>();
  const add = (own: readonly ProductStep[], map?: KernelStep): void => {
    const all = unitSteps({ products: own, map, first: 0, last: 0 }).map((step) => positions.get(step)!);
    units.push({ products: own, map, first: Math.min(...all), last: Math.max(...all) });
    for (const product of own) taken.add(product);
  };
  for (const [map, read] of behind) {
    const last = read.at(-1)!;
    const together = read.filter(
      (product) => product.left === last.left && columnsOf(product) === columnsOf(last),
    );
    add(together.slice(-mostMatrices), map);
  }
  for (const product of products) if (!taken.has(product)) add([product]);
  return units;
}

function isSuitable({ tensor, left, right }: ProductStep): boolean {
  if (right.origin !== 'weight' || left.origin !== 'computed') return false;
  if (right.tensor.shape.length !== 2) return false;
  const layout = requireProduct(tensor);
  const [columns, inner] = lieOf(right, layout.right.innerFirst);
  return (
    tensor.attributes.scale === 1 &&
    tensor.inputs[1]!.operation === 'weight' &&
    layout.right.innerFirst === (right.isTurned ?? false) &&
    !layout.left.innerFirst &&
    inner % elementsOfLoad(right.type as FloatType) === 0 &&
    inner * columns < 2 ** 31
  );
}

/** The sizes of a matrix of weights as [column, inner]. */
function lieOf({ tensor }: Place, innerFirst: boolean): readonly [number, number] {
  const [first, second] = tensor.shape as readonly [number, number];
  return innerFirst ? [second, first] : [first, second];
}

const columnsOf = ({ tensor }: ProductStep): number => tensor.shape.at(-1) as number;

/** Whether each element needs, of this product, the element at the same place alone. */
function needsSamePlace(root: Tensor, product: Tensor, find: FindOperand): boolean {
  const visit = (tensor: Tensor, isSame: boolean): boolean => {
    if (tensor === product) return isSame;
    if (tensor !== root && find(tensor) !== undefined) return true;
    return tensor.inputs.every((input) =>
      visit(
        input,
        isSame &&
          isElementwise(tensor) &&
          (tensor.operation === 'reshape' || equalShapes(input.shape, tensor.shape)),
      ),
    );
  };
  return equalDimensions(countElements(root.shape), countElements(product.shape)) && visit(root, true);
}

/** Units of the same rows, as far as all that they read is there before the first of them. */
function groupUnits(units: readonly Unit[], steps: readonly PlainStep[]): readonly (readonly Unit[])[] {
  const makers = new Map<object, number>(steps.map(({ result }, at) => [result.key, at]));
  const groups = new Map<object, Unit[][]>(); // by what all of them read
  for (const unit of [...units].sort((a, b) => a.first - b.first)) {
    const { left } = unit.products[0]!;
    const own = new Set(unit.products.map(({ result }) => result.key));
    const read = unit.map === undefined ? [] : readsOf(unit.map).filter(({ key }) => !own.has(key));
    const known = groups.get(left.key) ?? [];
    groups.set(left.key, known);
    const fitting = known.find(
      ([first]) =>
        first!.products.length === unit.products.length &&
        isReady(first!, first!.first) &&
        read.every(({ key }) => (makers.get(key) ?? -1) < first!.first),
    );
    if (fitting === undefined) known.push([unit]);
    else fitting.push(unit);
  }
  function isReady(unit: Unit, at: number): boolean {
    const own = new Set(unit.products.map(({ result }) => result.key));
    const read = unit.map === undefined ? [] : readsOf(unit.map);
    return read.every(({ key }) => own.has(key) || (makers.get(key) ?? -1) < at);
  }
  return [...groups.values()].flat();
}

function planGroup(group: readonly Unit[], replaced: readonly PlainStep[], find: FindOperand): FewRowsStep {
  const [{ left, tensor, right }] = group[0]!.products as [ProductStep];
  const [, inner] = lieOf(right, right.isTurned ?? false);
  const type = right.type as FloatType;
  const leading = tensor.shape.slice(0, -1);
  const parts = group.map(({ products, map }): FewRowsPart => {
    const result = map?.result ?? products[0]!.result;
    return {
      products: products.map((product) => ({
        ...{ tensor: product.tensor, weights: product.right },
        type: product.result.type as FloatType,
      })),
      columns: columnsOf(products[0]!),
      tensor: result.tensor,
      result,
    };
  });
  const norm = left.tensor;
  const isNormed =
    norm.operation === 'rmsNorm' &&
    norm.shape.at(-1) === inner &&
    hasRoomForNorm(mostNormedRows, inner, type);
  const workOf = (rows: number): FewRowsWork => ({
    ...{ leading, inner, type, parts },
    left: isNormed && rows <= mostNormedRows ? norm : left,
  });
  return {
    ...{ kind: 'few-rows', purpose: 'products' },
    rows: countElements(leading),
    forms: productForms.map((rows) => ({
      rows,
      plan: planFewRows(workOf(rows), find, rows, usualTuning(rows, parts[0]!.products.length)),
    })),
    results: parts.map(({ result }) => result as Place),
    replaced,
  };
}
