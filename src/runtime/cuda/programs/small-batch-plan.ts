/**
 * Finds the products that small-batch kernels can compute: products with a weight matrix, with their elementwise
 * consumers, a second product of the same rows (a gate), a preceding rmsNorm, and other products of the same rows.
 * The replaced steps stay for runs with more rows.
 */
import { countElements, equalDimensions, equalShapes } from '../../../graph/dimension.js';
import type { Tensor, TensorOf } from '../../../graph/tensor.js';
import type { FloatType } from '../driver/device.js';
import { type FindOperand, isElementwise } from '../kernels/element-code.js';
import type { KernelPlan } from '../kernels/kernel-plan.js';
import type { SmallBatchPart, SmallBatchWork } from '../kernels/small-batch-kernel.js';
import {
  defaultTuning,
  elementsOfLoad,
  hasRoomForNorm,
  planSmallBatch,
} from '../kernels/small-batch-kernel.js';
import type { SmallBatchStep, KernelStep, Place, PlainStep, ProductStep, Step } from './step.js';
import { readsOf, rootOf } from './step.js';
import { hasRoomForTiles, planTileProduct, tileForms } from '../kernels/tile-product-kernel.js';
import { readNorm } from '../kernels/wide-kernels.js';
import { requireProduct } from './product-shape.js';

/**
 * Fuses sums of a product and a tensor of its shape (the residual stream) into the product.
 * @param outputs wanted places
 * @param all steps that may read a product
 */
export function fuseAddends(
  steps: readonly PlainStep[],
  outputs: ReadonlySet<Place>,
  find: (tensor: Tensor) => Place | undefined,
  all: readonly PlainStep[] = steps,
): readonly PlainStep[] {
  const makers = new Map(all.map((step, at) => [step.result.key, { step, at }]));
  const readers = new Map<object, number>();
  for (const step of all) for (const { key } of readsOf(step)) readers.set(key, (readers.get(key) ?? 0) + 1);
  const own = new Set(steps);
  const fused = new Map<PlainStep, ProductStep>();
  const gone = new Set<PlainStep>();
  for (const step of steps) {
    const found = step.kind === 'kernel' ? findSides(step, find) : [];
    for (const [summed, addend] of found) {
      const made = makers.get(summed.key);
      const isReady = (makers.get(addend.key)?.at ?? -1) < (made?.at ?? -1);
      if (made?.step.kind !== 'product' || !own.has(made.step) || !isReady) continue;
      if (readers.get(summed.key) !== 1 || outputs.has(summed) || gone.has(made.step)) continue;
      fused.set(made.step, { ...made.step, addend, result: step.result });
      gone.add(step);
      gone.add(made.step);
      break;
    }
  }
  return steps.flatMap((step): PlainStep[] => {
    const product = fused.get(step);
    return product !== undefined ? [product] : gone.has(step) ? [] : [step];
  });
}

function findSides(
  { isMap, result }: KernelStep,
  find: (tensor: Tensor) => Place | undefined,
): readonly (readonly [Place, Place])[] {
  const { tensor } = result;
  if (!isMap || tensor.operation !== 'add' || result.type !== 'float32') return [];
  if (!tensor.inputs.every((side) => equalShapes(side.shape, tensor.shape))) return [];
  const [left, right] = tensor.inputs.map((side) => find(rootOf(side)));
  if (left?.type !== 'float32' || right?.type !== 'float32' || left.key === right.key) return [];
  return [
    [left, right],
    [right, left],
  ];
}

/** More would leave no registers for loads. */
const maxMatrices = 2;
/** Without tensor cores, missing rows still cost something. */
const lineForms: readonly number[] = [1, 2, 4];
/** Up to 2 rows, each block computes the norm itself. */
export const maxNormedRows = 2;

/** Products that make one tensor, and the step that combines them, if any. */
interface Unit {
  readonly products: readonly ProductStep[];
  readonly map: KernelStep | undefined;
  readonly first: number;
  readonly last: number;
}

export function fuseSmallBatches(
  steps: readonly PlainStep[],
  outputs: ReadonlySet<Place>,
  find: (tensor: Tensor) => Place | undefined,
  tensorCores: boolean,
): readonly Step[] {
  const positions = new Map<PlainStep, number>(steps.map((step, at) => [step, at]));
  const units = findUnits(steps, positions, outputs, find);
  const fused = new Map<number, SmallBatchStep>();
  const gone = new Set<PlainStep>();
  for (const group of groupUnits(units, steps)) {
    const replaced = group.flatMap(unitSteps).sort((a, b) => positions.get(a)! - positions.get(b)!);
    for (const step of replaced) gone.add(step);
    const at = group.length === 1 ? group[0]!.last : Math.min(...group.map(({ first }) => first));
    fused.set(at, planGroup(group, fuseAddends(replaced, outputs, find, steps), find, tensorCores));
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
    add(together.slice(-maxMatrices), map);
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
    layout.right.innerFirst === (right.isTransposed ?? false) &&
    !layout.left.innerFirst &&
    inner % elementsOfLoad(right.type as FloatType) === 0 &&
    inner * columns < 2 ** 31
  );
}

function lieOf({ tensor }: Place, innerFirst: boolean): readonly [number, number] {
  const [first, second] = tensor.shape as readonly [number, number];
  return innerFirst ? [second, first] : [first, second];
}

const columnsOf = ({ tensor }: ProductStep): number => tensor.shape.at(-1) as number;

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

/** Units of the same rows whose operands are ready before the first. */
function groupUnits(units: readonly Unit[], steps: readonly PlainStep[]): readonly (readonly Unit[])[] {
  const makers = new Map<object, number>(steps.map(({ result }, at) => [result.key, at]));
  const groups = new Map<object, Unit[][]>(); // by what all of them read
  for (const unit of [...units].sort((a, b) => a.first - b.first)) {
    const { left } = unit.products[0]!;
    const known = groups.get(left.key) ?? [];
    groups.set(left.key, known);
    const fitting = known.find(
      ([first]) =>
        first!.products.length === unit.products.length &&
        isReady(first!, first!.first) &&
        isReady(unit, first!.first),
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

function planGroup(
  group: readonly Unit[],
  replaced: readonly PlainStep[],
  find: FindOperand,
  tensorCores: boolean,
): SmallBatchStep {
  const [{ left, tensor, right }] = group[0]!.products as [ProductStep];
  const [, inner] = lieOf(right, right.isTransposed ?? false);
  const type = right.type as FloatType;
  const leading = tensor.shape.slice(0, -1);
  const parts = group.map(({ products, map }): SmallBatchPart => {
    const result = map?.result ?? products[0]!.result;
    return {
      products: products.map((product) => ({
        tensor: product.tensor,
        weights: product.right,
        type: product.result.type as FloatType,
      })),
      columns: columnsOf(products[0]!),
      tensor: result.tensor,
      result,
    };
  });
  const norm = left.tensor;
  const normWithin = (rows: number): TensorOf<'rmsNorm'> | undefined => {
    if (norm.operation !== 'rmsNorm' || norm.shape.at(-1) !== inner) return undefined;
    if (!tensorCores)
      return rows <= maxNormedRows && hasRoomForNorm(maxNormedRows, inner, type) ? norm : undefined;
    return hasRoomForTiles(rows, inner, parts[0]!.products.length) && readNorm(norm, find) !== undefined
      ? norm
      : undefined;
  };
  const planFor = (rows: number): KernelPlan => {
    const work: SmallBatchWork = { leading, inner, type, parts, left: normWithin(rows) ?? left };
    if (tensorCores) return planTileProduct(work, find, rows);
    return planSmallBatch(work, find, rows, defaultTuning(rows, parts[0]!.products.length));
  };
  const [smallest] = tileForms;
  const fewer = normWithin(smallest!) === undefined && normWithin(maxNormedRows) !== undefined;
  const forms = tensorCores ? [...(fewer ? [maxNormedRows] : []), ...tileForms] : lineForms;
  return {
    kind: 'small-batch',
    purpose: 'products',
    rows: countElements(leading),
    forms: forms.map((rows) => ({ rows, plan: planFor(rows) })),
    results: parts.map(({ result }) => result as Place),
    replaced,
  };
}
