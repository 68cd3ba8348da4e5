/**
 * A schedule with known lengths: launches and memory of a run. Kernels read exact lengths from memory, so layouts use
 * lengths rounded up: similar runs share a layout and its recording. Lengths that products depend on are not rounded.
 */
import type { Dimension, DimensionBindings, Shape } from '../../../graph/dimension.js';
import { evaluateDimension } from '../../../graph/dimension.js';
import {
  type InputDescription,
  type MixedValues,
  OutOfMemoryError,
  type TensorValue,
} from '../../program.js';
import type { Launch } from '../driver/device.js';
import { type KernelPlan, maxRowThreads, type ThreadNeed } from '../kernels/kernel-plan.js';
import { bytesOf } from '../kernels/kernel-text.js';
import { type ProductShape, shapeProduct } from './product-shape.js';
import type { RunPlan } from './run-plan.js';
import { type KernelStep, type Place, type ProductStep, type SmallBatchStep, resultsOf } from './step.js';

export function viewValues(
  { buffer }: Uint8Array,
  offset: number,
  count: number,
  type: Place['type'],
): TensorValue['data'] {
  if (type === 'float32') return new Float32Array(buffer, offset, count);
  if (type === 'int32') return new Int32Array(buffer, offset, count);
  return type === 'bool' ? new Uint8Array(buffer, offset, count) : new Uint16Array(buffer, offset, count);
}

export function packValues(
  inputs: readonly InputDescription[],
  values: MixedValues,
  { inputOffsets, symbolLists, sentBytes }: RunLayout,
  bindings: DimensionBindings,
): Uint8Array {
  const bytes = new Uint8Array(sentBytes);
  for (const { name } of inputs) {
    const { buffer, byteOffset, byteLength } = (values[name] as TensorValue).data;
    bytes.set(new Uint8Array(buffer, byteOffset, byteLength), inputOffsets.get(name));
  }
  const integers = new Int32Array(bytes.buffer);
  for (const { names, offset } of symbolLists)
    names.forEach((name, index) => (integers[offset / 4 + index] = bindings.get(name) ?? 0));
  return bytes;
}

/**
 * Memory of a run. Each value needs memory from the step that makes it to its last reader; others share it. Larger
 * values are placed first, each at the lowest free offset.
 */
const alignment = 256;

/** From step `from` to step `until`, both included. */
interface Lifetime {
  readonly bytes: number;
  readonly from: number;
  readonly until: number;
}

interface MemoryPlan {
  readonly offsets: readonly number[];
  readonly totalBytes: number;
}

const alignBytes = (bytes: number): number => Math.ceil(bytes / alignment) * alignment;

export function planMemory(lifetimes: readonly Lifetime[]): MemoryPlan {
  const offsets = new Array<number>(lifetimes.length).fill(0);
  const order = lifetimes
    .map((_, index) => index)
    .sort((a, b) => lifetimes[b]!.bytes - lifetimes[a]!.bytes || a - b);
  const placed: { readonly lifetime: Lifetime; readonly offset: number; readonly end: number }[] = []; // by offset
  let totalBytes = 0;
  for (const index of order) {
    const lifetime = lifetimes[index]!;
    const { bytes, from, until } = lifetime;
    const size = alignBytes(Math.max(bytes, 1));
    let [offset, at] = [0, 0];
    for (const [place, other] of placed.entries()) {
      if (other.lifetime.from > until || other.lifetime.until < from) continue;
      if (offset + size <= other.offset) break;
      offset = Math.max(offset, other.end);
      at = place + 1;
    }
    while (at < placed.length && placed[at]!.offset <= offset) at += 1;
    placed.splice(at, 0, { lifetime, offset, end: offset + size });
    offsets[index] = offset;
    totalBytes = Math.max(totalBytes, offset + size);
  }
  return { offsets, totalBytes };
}

export interface RunLayout {
  readonly steps: readonly LaidStep[];
  /** [list of symbols] Offset in the upload. */
  readonly symbolLists: readonly { readonly names: readonly string[]; readonly offset: number }[];
  /** [input] Offset in the upload, for host values. */
  readonly inputOffsets: ReadonlyMap<string, number>;
  readonly sentBytes: number;
  /** [place's key] Offset after the upload. */
  readonly offsets: ReadonlyMap<object, number>;
  /** Host outputs, in one piece. */
  readonly hostOffset: number;
  readonly hostBytes: number;
  readonly hostOffsets: ReadonlyMap<string, number>;
  readonly totalBytes: number;
}

export type LaidStep =
  | {
      readonly kind: 'kernel';
      readonly plan: KernelPlan;
      /** Offset of its symbols' values in the upload. */
      readonly symbols: number;
      readonly grid: Launch['grid'];
      readonly block: number;
      readonly startsEarly: boolean;
    }
  | {
      readonly kind: 'product';
      readonly places: Pick<ProductStep, 'left' | 'right' | 'addend' | 'result'>;
      readonly product: ProductShape;
    };

const maxElements = 2 ** 31 - 1;
const roundTo = 64;

export function roundLengths(bindings: DimensionBindings, exact: ReadonlySet<string>): DimensionBindings {
  return new Map(
    [...bindings].map(([name, length]) => [
      name,
      exact.has(name) ? length : Math.ceil(length / roundTo) * roundTo,
    ]),
  );
}

export function layOutRun(
  { schedule, hosted, steps, values }: RunPlan,
  sent: readonly InputDescription[], // what comes from the host
  bindings: DimensionBindings,
): RunLayout {
  const measure = measureWith(bindings);
  for (const step of steps) for (const place of resultsOf(step)) measure.requireSmall(place);
  let sentBytes = 0;
  const inputOffsets = new Map<string, number>();
  for (const { name, shape, dtype } of sent) {
    inputOffsets.set(name, sentBytes);
    sentBytes += alignBytes(measure.count(shape) * bytesOf(dtype));
  }
  const lists = new Map<string, { readonly names: readonly string[]; readonly offset: number }>();
  const listOf = (names: readonly string[]): number => {
    const key = names.join();
    const known = lists.get(key) ?? { names, offset: sentBytes };
    if (!lists.has(key)) sentBytes += 4 * names.length;
    lists.set(key, known);
    return known.offset;
  };
  let startsEarly = true;
  const laid = steps.flatMap((step): LaidStep[] => {
    if (resultsOf(step).every(({ tensor }) => measure.count(tensor.shape) === 0)) return [];
    if (step.kind === 'product') {
      const product = shapeProduct(step.tensor, [step.left, step.right, step.result], measure.sizes);
      return [{ kind: 'product', places: step, product }];
    }
    const plan = choosePlan(step, measure.size);
    const threads = chooseThreads(plan.threads, measure.size);
    const own = { kind: 'kernel' as const, plan, symbols: listOf(plan.symbols), startsEarly, ...threads };
    startsEarly = step.kind !== 'kernel' || step.isAwaited !== true;
    return [own];
  });
  const planned = planMemory(
    values.map(({ place, from, until }) => ({ bytes: measure.bytes(place), from, until })),
  );
  const offsets = new Map<object, number>();
  values.forEach(({ place }, index) => offsets.set(place.key, planned.offsets[index]!));
  const hostOffset = planned.totalBytes;
  const hostOffsets = new Map<string, number>();
  let hostBytes = 0;
  for (const name of hosted) {
    const place = schedule.outputs.get(name)!;
    hostOffsets.set(name, hostBytes);
    offsets.set(place.key, hostOffset + hostBytes);
    hostBytes += alignBytes(measure.bytes(place));
  }
  return {
    steps: laid,
    symbolLists: [...lists.values()],
    inputOffsets,
    sentBytes: alignBytes(sentBytes),
    offsets,
    hostOffset,
    hostBytes,
    hostOffsets,
    totalBytes: hostOffset + hostBytes,
  };
}

function choosePlan(step: KernelStep | SmallBatchStep, size: (dimension: Dimension) => number): KernelPlan {
  if (step.kind === 'kernel') return step.plan;
  const rows = size(step.rows);
  return step.forms.find((form) => form.rows >= rows)!.plan;
}

function chooseThreads(need: ThreadNeed, size: (dimension: Dimension) => number) {
  const most = 65_535;
  const count = size(need.count);
  if (need.kind === 'elements') {
    const block = 256;
    const own = Math.ceil(count / (block * (need.each ?? 1)));
    return { block, grid: [Math.max(1, Math.min(most, own)), 1, 1] as const };
  }
  if (need.kind === 'blocks') {
    const { block, parts } = need;
    const times = parts === undefined ? 1 : Math.min(parts.most, Math.ceil(size(parts.length) / parts.each));
    return { block, grid: [Math.max(1, count * times), 1, 1] as const };
  }
  const grid = [Math.max(1, Math.min(most, count)), 1, 1] as const;
  const warps = Math.max(1, Math.min(maxRowThreads / 32, Math.ceil(size(need.width) / 64)));
  return { block: 32 * warps, grid };
}

export function measureWith(bindings: DimensionBindings) {
  const size = (dimension: Dimension): number =>
    typeof dimension === 'number' ? dimension : (evaluateDimension(dimension, bindings) ?? 0);
  const sizes = (shape: Shape): readonly number[] => shape.map(size);
  const count = (shape: Shape): number => shape.reduce<number>((product, each) => product * size(each), 1);
  const countPlace = ({ tensor, atMost }: Place): number =>
    Math.min(count(tensor.shape), atMost === undefined ? Infinity : count(atMost));
  return {
    size,
    sizes,
    count,
    bytes: (place: Place): number => countPlace(place) * bytesOf(place.type),
    requireSmall: (place: Place): void => {
      const elements = countPlace(place);
      if (elements > maxElements) throw tooLarge(elements, place);
    },
  };
}

function tooLarge(count: number, { tensor }: Place): OutOfMemoryError {
  return new OutOfMemoryError(
    `A value of a program (${tensor.operation}) has ${count} elements; a GPU program can have ${maxElements}.`,
    'Lower the number of candidates or sequences that are computed at once.',
  );
}
