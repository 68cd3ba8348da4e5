/**
 * A graph as steps on a device. A tensor is in memory if it comes from outside, has a kernel of its own, is read by a
 * product, or is read several times and is more than a view; all others are computed inside the kernel that needs
 * them. A reshape is another name for the same memory.
 */
import type { HalfType } from '../../../core/half-floats.js';
import type { Shape } from '../../../graph/dimension.js';
import { type Tensor, type TensorOf, sortTopologically } from '../../../graph/tensor.js';
import type { NamedTensors } from '../../program.js';
import type { ElementType, FloatType } from '../driver/device.js';
import { isWrittenInPlace } from '../kernels/element-code.js';
import { planAttention } from '../kernels/attention-kernel.js';
import { fuseAddends, fuseSmallBatches } from './small-batch-plan.js';
import { isPlainRotation, planBatchAttention } from '../kernels/batch-attention-kernel.js';
import { type Place, type PlainStep, type Step, readsOf, resultsOf, rootOf } from './step.js';
import type { KernelPlan } from '../kernels/kernel-plan.js';
import { fuseAttention } from './split-attention-plan.js';
import { isRowOperation, planMap, planRows, planScatter, planSum } from '../kernels/kernels.js';
import { planExperts } from '../kernels/expert-kernel.js';
import { isTileable, planTileAttention } from '../kernels/tile-attention-kernel.js';
import { ValueStorage } from './value-storage.js';

export interface Schedule {
  readonly steps: readonly Step[];
  /** [output] Two outputs never share a place, and none is an input. */
  readonly outputs: ReadonlyMap<string, Place>;
  /** [output] May differ from the shape of its place. */
  readonly shapes: ReadonlyMap<string, Shape>;
  readonly places: readonly Place[];
}

/** Sums are float32 regardless. */
export type ProductType = FloatType;

export interface ScheduleOptions {
  readonly productType: ProductType;
  /** Use small-batch kernels. */
  readonly smallBatches: boolean;
  /** Attention of many rows may round its operands like products. */
  readonly tensorCores: boolean;
}

export function scheduleGraph(outputs: NamedTensors, options: ScheduleOptions): Schedule {
  return new Scheduler(outputs, options).run();
}

class Scheduler {
  private readonly order: readonly Tensor[];
  private readonly uses = new Map<Tensor, number>();
  private readonly places = new Map<Tensor, Place>();
  private readonly narrowed = new Map<Place, Place>();
  private readonly resident: ReadonlySet<Tensor>;
  private readonly steps: PlainStep[] = [];
  private readonly productType: ProductType;
  private readonly storage: ValueStorage;

  constructor(
    private readonly outputs: NamedTensors,
    private readonly options: ScheduleOptions,
  ) {
    this.productType = options.productType;
    this.order = sortTopologically(Object.values(outputs));
    for (const tensor of this.order) {
      for (const input of new Set(tensor.inputs)) this.uses.set(input, (this.uses.get(input) ?? 0) + 1);
    }
    this.resident = this.findResident();
    this.storage = new ValueStorage(this.order, outputs, this.resident, {
      productType: this.productType,
      narrowsAttention: options.tensorCores && !options.smallBatches,
    });
  }

  run(): Schedule {
    for (const tensor of this.order) if (this.resident.has(tensor)) this.make(tensor);
    const taken = new Set<Place>();
    const outputs = new Map<string, Place>();
    for (const [name, tensor] of Object.entries(this.outputs)) {
      const made = this.places.get(rootOf(tensor));
      const isFree = made?.origin === 'computed' && made.type === typeOf(tensor) && !taken.has(made);
      const place = isFree ? made : this.compute(tensor, typeOf(tensor));
      taken.add(place);
      outputs.set(name, place);
    }
    const shapes = new Map(Object.entries(this.outputs).map(([name, { shape }]) => [name, shape]));
    const { find } = this;
    const steps = this.options.smallBatches
      ? fuseAttention(fuseSmallBatches(this.steps, taken, find, this.options.tensorCores), find)
      : fuseAddends(this.steps, taken, find);
    const all = [...steps, ...this.steps];
    const places = new Set(all.flatMap((step) => [...resultsOf(step), ...readsOf(step)]));
    return { steps, outputs, shapes, places: [...places] };
  }

  private readonly find = (tensor: Tensor): Place | undefined => this.places.get(tensor);

  private findResident(): ReadonlySet<Tensor> {
    const resident = new Set<Tensor>();
    for (const tensor of this.order) {
      const { operation, inputs } = tensor;
      // Attention reads each query once, so it may compute it.
      const inMemory =
        operation === 'attention'
          ? inputs.slice(1).filter((side) => !this.isRotatedIn(tensor, side))
          : inputs;
      if (operation === 'contract' || operation === 'attention' || operation === 'expertProduct')
        for (const side of inMemory) resident.add(rootOf(side));
      if (operation === 'rotate') resident.add(rootOf(inputs[0]!));
      if (operation === 'input' || operation === 'weight' || this.isTable(tensor)) resident.add(tensor);
      else if (!isWrittenInPlace(tensor)) resident.add(tensor);
      else if ((this.uses.get(tensor) ?? 0) > 1 && !isCheap(tensor)) resident.add(rootOf(tensor));
    }
    for (const tensor of Object.values(this.outputs)) {
      const root = rootOf(tensor);
      if (!isCheap(root)) resident.add(root);
    }
    return resident;
  }

  /** Batch attention rotates what it reads. */
  private isRotatedIn(attention: TensorOf<'attention'>, side: Tensor): boolean {
    const { smallBatches, tensorCores } = this.options;
    if (smallBatches || !tensorCores || !isTileable(attention)) return false;
    const [, ...angles] = rootOf(side).inputs;
    return isPlainRotation(side) && angles.every(({ operation }) => operation === 'input');
  }

  private isTable(tensor: Tensor): boolean {
    return tensor.operation === 'constant' && tensor.attributes.values.length > 1;
  }

  private make(tensor: Tensor): void {
    if (tensor.operation === 'input' || tensor.operation === 'weight' || this.isTable(tensor)) {
      const origin =
        tensor.operation === 'input' || tensor.operation === 'weight' ? tensor.operation : 'constant';
      const place = createPlace(tensor, this.storage.typeOf(tensor), origin);
      const isTransposed = origin === 'weight' && this.storage.isTransposed(tensor);
      this.places.set(tensor, { ...place, isTransposed });
      return;
    }
    this.places.set(tensor, this.compute(tensor, this.storage.typeOf(tensor)));
  }

  private compute(tensor: Tensor, type: ElementType): Place {
    const result = createPlace(tensor, type, 'computed');
    const { find } = this;
    const push = (plan: KernelPlan, isMap = false): void => {
      this.steps.push({ kind: 'kernel', plan, result, isMap });
    };
    if (this.places.has(tensor)) {
      // Already in memory: copy it.
      push(planMap(tensor, result, find));
    } else if (tensor.operation === 'contract') {
      const [left, right] = tensor.inputs.map((side) => this.forProduct(this.places.get(rootOf(side))!));
      this.steps.push({ kind: 'product', tensor, left: left!, right: right!, result });
    } else if (tensor.operation === 'expertProduct') {
      push(planExperts(tensor, result, find));
    } else if (isRowOperation(tensor)) {
      push(planRows(tensor, result, find));
    } else if (tensor.operation === 'sum') {
      push(planSum(tensor, result, find));
    } else if (tensor.operation === 'attention') {
      this.steps.push(this.computeAttention(tensor, result));
    } else if (tensor.operation === 'scatterAddRows') {
      push(planScatter(tensor, result, find));
    } else {
      push(planMap(tensor, result, find), true);
    }
    return result;
  }

  private computeAttention(tensor: TensorOf<'attention'>, result: Place): PlainStep {
    const { find } = this;
    const { smallBatches, tensorCores } = this.options;
    const planTiled = (): KernelPlan =>
      smallBatches
        ? planTileAttention(tensor, result, find)
        : planBatchAttention(tensor, result, find, this.productType as HalfType);
    const isTiled = tensorCores && isTileable(tensor);
    const plan = isTiled ? planTiled() : planAttention(tensor, result, find);
    return { kind: 'kernel', plan, result, isMap: false };
  }

  private forProduct(place: Place): Place {
    if (place.type === this.productType) return place;
    const known = this.narrowed.get(place);
    if (known !== undefined) return known;
    // Weights are uploaded in both types; computed values are converted.
    const origin = place.origin === 'weight' ? 'weight' : 'computed';
    const isTransposed = origin === 'weight' && this.storage.wantsTransposed(place.tensor);
    const result = { ...createPlace(place.tensor, this.productType, origin), isTransposed };
    this.narrowed.set(place, result);
    if (origin === 'computed') {
      const plan = planMap(place.tensor, result, () => place);
      this.steps.push({ kind: 'kernel', plan, result, isMap: false });
    }
    return result;
  }
}

function createPlace(tensor: Tensor, type: ElementType, origin: Place['origin']): Place {
  return { tensor, type, origin, key: {} };
}

const typeOf = ({ dtype }: Tensor): ElementType => dtype;

/** As cheap to compute as to load. */
function isCheap(tensor: Tensor): boolean {
  switch (tensor.operation) {
    case 'constant':
      return tensor.attributes.values.length <= 1;
    case 'broadcast':
    case 'reshape':
    case 'stopGradient':
      return isCheap(tensor.inputs[0]!) || isLeaf(tensor.inputs[0]!);
    case 'transpose':
    case 'slice':
      return isLeaf(tensor.inputs[0]!);
    default:
      return false;
  }
}

const isLeaf = ({ operation }: Tensor): boolean => operation === 'input' || operation === 'weight';
