/** Runs graphs on an NVIDIA GPU: products by cuBLASLt, everything else by generated kernels. */
import { createHash } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import { MistletoeError } from '../../core/errors.js';
import { encodeHalves, type HalfType, isHalf } from '../../core/half-floats.js';
import { planContraction } from '../../graph/contraction-plan.js';
import { cutEarly } from '../../graph/cut-early.js';
import { decomposeAttention, separateSegments } from '../../graph/operations/attention.js';
import { pick, topIndices } from '../../graph/operations/indexing.js';
import { broadcast, reshape } from '../../graph/operations/shaping.js';
import { type RewriteRule, simplify } from '../../graph/simplify.js';
import { type Tensor, type TensorOf, sortTopologically } from '../../graph/tensor.js';
import {
  type CompileOptions,
  ignoreLoss,
  type NamedTensors,
  type Program,
  type Runtime,
} from '../program.js';
import { PreparationClock } from '../preparation-clock.js';
import { listInputs } from '../program-values.js';
import type { RowBuffer } from '../row-buffer.js';
import type { WeightStore } from '../weights.js';
import { isAttentionFusable } from './kernels/attention-kernel.js';
import { CudaProgram } from './programs/cuda-program.js';
import { RecordingShelf } from './programs/recording-shelf.js';
import { type Allocation, DeviceMemory } from './driver/device-memory.js';
import { allocateRows } from './driver/device-rows.js';
import { DeviceWeights } from './programs/device-weights.js';
import type { Address, Device, ElementType, Kernel, KernelModule } from './driver/device.js';
import { cacheTypeOf } from './driver/device.js';
import { type KernelPlan, kernelPrelude } from './kernels/kernel-plan.js';
import { type Place, plansOf, rootOf } from './programs/step.js';
import { type ProductType, type Schedule, scheduleGraph } from './programs/schedule.js';
import { isTileable } from './kernels/tile-attention-kernel.js';

/** Enough rows to keep a large GPU busy; more would share less of the unchanged prefix. */
const rowsPerPass = 2048;

export interface CudaRuntimeOptions {
  /** Type of the operands of products; default float32. */
  readonly productType?: ProductType | undefined;
}

export function createCudaRuntime(device: Device, options: CudaRuntimeOptions = {}): Runtime {
  return new CudaRuntime(device, options.productType ?? 'float32');
}

class CudaRuntime implements Runtime {
  readonly name = 'cuda';
  readonly readsCheckpoints = true;
  readonly rowsPerPass = rowsPerPass;
  readonly drawsInPrograms = true;
  readonly keepsTokens = true;
  readonly cacheType: HalfType | undefined;
  preparedRuns = 0;
  private readonly preparation = new PreparationClock();
  private readonly memory: DeviceMemory;
  private readonly weights: DeviceWeights;
  /** By text: equal layers and programs share kernels. */
  private readonly kernels = new Map<string, Kernel>();
  private readonly modules: KernelModule[] = [];
  private readonly recordings = new RecordingShelf();
  private isDisposed = false;

  constructor(
    private readonly device: Device,
    private readonly productType: ProductType,
  ) {
    this.cacheType = cacheTypeOf(productType);
    this.memory = new DeviceMemory(device, this.preparation);
    this.weights = new DeviceWeights(this.memory);
  }

  get preparationMs(): number {
    return this.preparation.ms;
  }

  allocate(rowCount: number, width: number): RowBuffer {
    const rows = allocateRows(this.memory, rowCount, width);
    if (rowCount * width > 0) this.device.clear(rows.address, 4 * rowCount * width);
    return rows;
  }

  compile(
    outputs: NamedTensors,
    stores: readonly WeightStore[] = [],
    options: CompileOptions = {},
  ): Promise<Program> {
    return this.preparation.during(() => this.makeProgram(outputs, stores, options));
  }

  private async makeProgram(
    outputs: NamedTensors,
    stores: readonly WeightStore[],
    options: CompileOptions,
  ): Promise<Program> {
    if (this.isDisposed)
      throw new MistletoeError('runtime', 'The runtime was asked for a program after it was disposed of.');
    const smallBatches = options.packed === true;
    const tensorCores = this.productType !== 'float32' && this.device.computeCapability[0] >= 8;
    const keepsAttention = (attention: TensorOf<'attention'>): boolean =>
      smallBatches ? isAttentionFusable(attention) : tensorCores && isTileable(attention);
    const isKept = smallBatches || !needsWeights(outputs) ? keepsAttention : () => false;
    const spellOutOthers: RewriteRule = (tensor) =>
      tensor.operation === 'attention' && isKept(tensor) ? undefined : decomposeAttention(tensor);
    // Merge equal subgraphs before they are cut.
    const rules = [...(smallBatches ? [separateSegments] : []), spellOutOthers, planContraction, gatherTop];
    const { preparation, productType } = this;
    const schedule = preparation.blocking(() => {
      const graph = simplify(cutEarly(simplify(outputs)), rules);
      return scheduleGraph(graph, { productType, smallBatches, tensorCores });
    });
    // Compiling blocks the thread for seconds; let an abort through first.
    await setImmediate();
    const kernelOf = preparation.blocking(() => this.compileKernels(schedule));
    const constantAddresses = new Map<object, Address>();
    const tables: Allocation[] = [];
    for (const place of schedule.places) {
      const { tensor } = place;
      if (tensor.operation === 'weight' && place.origin === 'weight')
        constantAddresses.set(
          place.key,
          await this.weights.find(stores, tensor, place.type, place.isTransposed),
        );
      else if (tensor.operation === 'constant' && place.origin === 'constant')
        tables.push(this.uploadTable(place, tensor.attributes.values, constantAddresses));
    }
    return new CudaProgram(this.memory, {
      inputs: listInputs(outputs),
      schedule,
      kernelOf,
      constantAddresses,
      recordings: this.recordings,
      preparation,
      onPrepare: () => (this.preparedRuns += 1),
      dispose: () => {
        for (const table of tables) table.free();
      },
    });
  }

  private uploadTable(
    place: Place,
    values: readonly number[],
    constantAddresses: Map<object, Address>,
  ): Allocation {
    const data = encodeTable(place.type, values);
    const table = this.memory.take(data.byteLength);
    this.device.upload(table.address, data);
    constantAddresses.set(place.key, table.address);
    return table;
  }

  /**
   * Kernels for certain numbers of rows are compiled when these rows first come: all of them would take most of the time
   * of a start.
   */
  private compileKernels(schedule: Schedule): (plan: KernelPlan) => Kernel {
    const { kernels } = this;
    const all = schedule.steps.flatMap(plansOf);
    const rowsOf = new Map(all.map(({ plan, rows }) => [plan, rows]));
    const compile = (rows: number | undefined): void => {
      const names = new Map<string, string>(); // text -> name
      for (const { plan, purpose } of all.filter((each) => each.rows === rows)) {
        const text = plan.write('kernel');
        if (!kernels.has(text)) names.set(text, nameKernel(purpose, text));
      }
      if (names.size === 0) return;
      const bodies = [...names].map(([text, name]) => text.replace('void kernel(', `void ${name}(`));
      const module = this.device.compile([kernelPrelude, ...bodies].join(''));
      this.modules.push(module);
      for (const [text, name] of names) kernels.set(text, module.kernel(name));
    };
    compile(undefined);
    const found = new Map<KernelPlan, Kernel>();
    return (plan) => {
      const known = found.get(plan);
      if (known !== undefined) return known;
      const text = plan.write('kernel');
      if (!kernels.has(text)) compile(rowsOf.get(plan));
      const kernel = kernels.get(text)!;
      found.set(plan, kernel);
      return kernel;
    };
  }

  async dispose(): Promise<void> {
    if (this.isDisposed) return;
    this.isDisposed = true;
    try {
      await this.weights.dispose();
      await this.device.synchronize();
      // No pass can begin from here on: a worker is closed while it runs a unit.
      this.recordings.clear();
      this.memory.dispose();
      for (const module of this.modules) module.unload();
    } catch (cause) {
      ignoreLoss(cause);
    } finally {
      this.device.dispose();
    }
  }
}

/** For profilers, and the same in every process, so that compiled code is found again. */
const nameKernel = (purpose: string, text: string): string =>
  `${purpose}_${createHash('sha256').update(text).digest('hex').slice(0, 16)}`;

/** Ranking takes a pass per rank, so find the indices once and gather the values. */
const gatherTop: RewriteRule = (tensor) => {
  if (tensor.operation !== 'topValues') return undefined;
  const [x] = tensor.inputs as [Tensor];
  const { count } = tensor.attributes;
  const [leading, width] = [x.shape.slice(0, -1), x.shape.at(-1)!];
  const repeated = broadcast(reshape(x, [...leading, 1, width]), [...leading, count, width]);
  return pick(repeated, topIndices(x, count));
};

/** Gradients may need the attention weights, which only decomposed attention computes. */
function needsWeights(outputs: NamedTensors): boolean {
  const all = sortTopologically(Object.values(outputs));
  const keys = new Set(
    all.flatMap((tensor) =>
      tensor.operation === 'attention' ? tensor.inputs.slice(2).map((side) => rootOf(side)) : [],
    ),
  );
  return all.some(
    ({ operation, inputs }) => operation === 'contract' && inputs.some((side) => keys.has(rootOf(side))),
  );
}

function encodeTable(type: ElementType, values: readonly number[]): ArrayBufferView {
  if (isHalf(type)) return encodeHalves(values, type);
  if (type === 'float32') return Float32Array.from(values);
  return type === 'int32' ? Int32Array.from(values) : Uint8Array.from(values);
}
