/**
 * A schedule with every length known: what each step launches and where each value lies in the memory of the run. Made
 * once for each combination of lengths and wanted outputs, because most runs are like one before.
 */
import { MistletoeError } from '../../core/errors.js';
import type { Dimension, DimensionBindings, Shape } from '../../graph/dimension.js';
import { evaluateDimension } from '../../graph/dimension.js';
import type { TensorOf } from '../../graph/tensor.js';
import type { SideLayout } from '../../graph/contraction-plan.js';
import type { Launch, MatrixOperand, Product } from './device.js';
import { bytesOf } from './element-size.js';
import type { ThreadNeed } from './kernels.js';
import { alignBytes, planMemory } from './memory-plan.js';
import type { Place, Schedule, Step } from './schedule.js';
import { requireProduct } from './schedule.js';

/** Where an output goes: with the host, into a buffer that is made for it, or copied to a given one. */
export type OutputKind = 'host' | 'fresh' | 'given';

/** What a run of certain outputs does, whatever the lengths. */
export interface RunPlan {
  readonly schedule: Schedule;
  readonly wanted: ReadonlyMap<string, OutputKind>;
  /** The steps that the wanted outputs come from, with their numbers in the schedule. */
  readonly steps: readonly { readonly step: Step; readonly at: number }[];
  /** Computed values that lie in the memory of the run, and how long. */
  readonly values: readonly { readonly place: Place; readonly from: number; readonly until: number }[];
}

export interface RunLayout {
  readonly steps: readonly LaidStep[];
  /** [place] offset in the memory of the run, of what is neither brought along nor has memory of its own. */
  readonly offsets: ReadonlyMap<object, number>;
  /** Of each wanted output. */
  readonly shapes: ReadonlyMap<string, readonly number[]>;
  /** All outputs for the host, as one piece. */
  readonly hostOffset: number;
  readonly hostBytes: number;
  readonly hostOffsets: ReadonlyMap<string, number>;
  readonly totalBytes: number;
}

export type LaidStep =
  | {
      readonly kind: 'kernel';
      readonly step: number;
      readonly operands: readonly Place[];
      readonly symbols: Int32Array;
      readonly grid: Launch['grid'];
      readonly block: number;
    }
  | {
      readonly kind: 'product';
      readonly places: { readonly left: Place; readonly right: Place; readonly result: Place };
      readonly product: ProductShape;
    };

type LaidOperand = Omit<MatrixOperand, 'address'>;
export interface ProductShape extends Omit<Product, 'left' | 'right' | 'result'> {
  readonly left: LaidOperand;
  readonly right: LaidOperand;
  readonly result: Omit<LaidOperand, 'transposed'>;
}

const mostElements = 2 ** 31 - 1;

export function planRun(schedule: Schedule, wanted: ReadonlyMap<string, OutputKind>): RunPlan {
  const needed = findNeeded(schedule, wanted);
  const steps = schedule.steps.flatMap((step, at) => (needed.has(step) ? [{ step, at }] : []));
  const until = new Map<object, number>();
  for (const { step, at } of steps) for (const { key } of readsOf(step)) until.set(key, at);
  const end = schedule.steps.length;
  const own = new Map([...wanted].map(([name, kind]) => [schedule.outputs.get(name)!.key, kind]));
  for (const key of own.keys()) until.set(key, end);
  const values = steps.flatMap(({ step: { result }, at }) => {
    const kind = own.get(result.key);
    return kind === 'fresh' || kind === 'host'
      ? []
      : [{ place: result, from: at, until: until.get(result.key) ?? at }];
  });
  return { schedule, wanted, steps, values };
}

/** Lengths up to which memory is planned: a little more than they are, so that the next run finds a plan. */
const roundLength = (length: number): number => (length > 64 ? Math.ceil(length / 64) * 64 : length);

export class RunLayouts {
  private readonly offsets = new Map<
    string,
    { readonly offsets: readonly number[]; readonly totalBytes: number }
  >();

  constructor(private readonly plan: RunPlan) {}

  layOut(bindings: DimensionBindings): RunLayout {
    const { schedule, wanted, steps, values } = this.plan;
    const measure = measureWith(bindings);
    for (const { step } of steps) measure.requireSmall(step.result);
    const hostOffsets = new Map<string, number>();
    let hostBytes = 0;
    for (const [name, kind] of wanted) {
      if (kind !== 'host') continue;
      hostOffsets.set(name, hostBytes);
      hostBytes += alignBytes(measure.bytes(schedule.outputs.get(name)!));
    }
    const planned = this.findOffsets(bindings);
    const offsets = new Map<object, number>();
    values.forEach(({ place }, index) => offsets.set(place.key, planned.offsets[index]!));
    const hostOffset = planned.totalBytes;
    for (const [name, offset] of hostOffsets)
      offsets.set(schedule.outputs.get(name)!.key, hostOffset + offset);
    const shapes = new Map(
      [...wanted.keys()].map((name) => [name, measure.sizes(schedule.shapes.get(name)!)]),
    );
    const laid = steps.flatMap(({ step, at }): LaidStep[] => {
      if (measure.count(step.result.tensor.shape) === 0) return [];
      if (step.kind === 'product') {
        const { left, right, result } = step;
        const product = shapeProduct(step.tensor, [left, right, result], measure.sizes);
        return [{ kind: 'product', places: { left, right, result }, product }];
      }
      const { operands, symbols, threads } = step.plan;
      const lengths = Int32Array.from(symbols, (name) => bindings.get(name) ?? 0);
      const launch = chooseThreads(threads, measure.size);
      return [
        { kind: 'kernel', step: at, operands: operands as readonly Place[], symbols: lengths, ...launch },
      ];
    });
    const totalBytes = hostOffset + hostBytes;
    return { steps: laid, offsets, shapes, hostOffset, hostBytes, hostOffsets, totalBytes };
  }

  private findOffsets(bindings: DimensionBindings) {
    const rounded = new Map([...bindings].map(([name, length]) => [name, roundLength(length)]));
    const key = [...rounded].map(([name, length]) => `${name}=${length}`).join(' ');
    const [exact, upper] = [measureWith(bindings), measureWith(rounded)];
    const known = this.offsets.get(key);
    const fits = this.plan.values.every(({ place }) => exact.bytes(place) <= upper.bytes(place));
    if (known !== undefined && fits) return known;
    const measure = fits ? upper : exact;
    const planned = planMemory(
      this.plan.values.map(({ place, from, until }) => ({ bytes: measure.bytes(place), from, until })),
    );
    if (fits) this.offsets.set(key, planned);
    return planned;
  }
}

function measureWith(bindings: DimensionBindings) {
  const size = (dimension: Dimension): number =>
    typeof dimension === 'number' ? dimension : (evaluateDimension(dimension, bindings) ?? 0);
  const sizes = (shape: Shape): readonly number[] => shape.map(size);
  const count = (shape: Shape): number => {
    let product = 1;
    for (const dimension of shape) product *= size(dimension);
    return product;
  };
  return {
    ...{ size, sizes, count },
    bytes: ({ tensor, type }: Place): number => count(tensor.shape) * bytesOf(type),
    requireSmall: (place: Place): void => {
      const elements = count(place.tensor.shape);
      if (elements > mostElements) throw tooLarge(elements, place);
    },
  };
}

function chooseThreads(need: ThreadNeed, size: (dimension: Dimension) => number) {
  const count = size(need.count);
  if (need.kind === 'elements') {
    const block = 256;
    return { block, grid: [Math.max(1, Math.min(65_535, Math.ceil(count / block))), 1, 1] as const };
  }
  const warps = Math.max(1, Math.min(32, Math.ceil(size(need.width) / 64)));
  return { block: 32 * warps, grid: [Math.max(1, Math.min(65_535, count)), 1, 1] as const };
}

/** The steps that the wanted outputs come from. */
function findNeeded(schedule: Schedule, wanted: ReadonlyMap<string, OutputKind>): ReadonlySet<Step> {
  const needed = new Set<Step>();
  const makers = new Map(schedule.steps.map((step) => [step.result.key, step]));
  const visit = (place: Place): void => {
    const step = makers.get(place.key);
    if (step === undefined || needed.has(step)) return;
    needed.add(step);
    for (const read of readsOf(step)) visit(read);
  };
  for (const name of wanted.keys()) visit(schedule.outputs.get(name)!);
  return needed;
}

const readsOf = (step: Step): readonly Place[] =>
  step.kind === 'product'
    ? [step.left, step.right]
    : (step.plan.operands as readonly Place[]).filter(({ key }) => key !== step.result.key);

/** A contraction as one call: sizes and strides from how its sides lie. */
export function shapeProduct(
  tensor: TensorOf<'contract'>,
  [left, right, result]: readonly [Place, Place, Place],
  sizesOf: (shape: Shape) => readonly number[],
): ProductShape {
  const layout = requireProduct(tensor);
  const output = sizesOf(tensor.shape);
  const columns = output.at(-1)!;
  const [leftSizes, rightSizes] = tensor.inputs.map(({ shape }) => sizesOf(shape)) as [number[], number[]];
  const isStack = tensor.shape.length === 3 && rightSizes.length === 3;
  const batch = isStack ? output[0]! : 1;
  const rows = isStack ? output[1]! : output.slice(0, -1).reduce((product, each) => product * each, 1);
  const count = (sizes: readonly number[]): number => sizes.reduce((product, each) => product * each, 1);
  const inner = rows === 0 || batch === 0 ? 0 : count(leftSizes) / (batch * rows);
  const side = (place: Place, { innerFirst, batchInside }: SideLayout, outer: number): LaidOperand => {
    const [first, lastSize] = innerFirst ? [inner, outer] : [outer, inner];
    return {
      type: place.type,
      rowStride: batchInside ? batch * lastSize : lastSize,
      batchStride: batchInside ? lastSize : first * lastSize,
      transposed: false,
    };
  };
  return {
    ...{ rows, columns, inner, batch, scale: tensor.attributes.scale },
    left: { ...side(left, layout.left, rows), transposed: layout.left.innerFirst },
    right: { ...side(right, layout.right, columns), transposed: !layout.right.innerFirst },
    result: { type: result.type, rowStride: columns, batchStride: rows * columns },
  };
}

function tooLarge(count: number, { tensor }: Place): MistletoeError {
  return new MistletoeError(
    'runtime',
    `A value of a program (${tensor.operation}) has ${count} elements; a GPU program can have ${mostElements}.`,
    { hint: 'Lower the number of candidates or sequences that are computed at once.' },
  );
}
