/**
 * Products by cuBLASLt. Descriptors and algorithms are cached per shape, type, layout and alignment, because choosing
 * them costs more than the launch. Sums are float32 without TF32, also across splits.
 * For few rows and a large half-type matrix, the library's first proposal is often not the fastest, so the first
 * product of a kind tries several. The first proposal stays unless another is clearly faster, so that timing noise
 * rarely changes the last bits.
 */
import { MistletoeError } from '../../../core/errors.js';
import {
  type ColumnMajorOperand,
  type ColumnMajorProduct,
  describeProduct,
  productKey,
  toColumnMajor,
} from './product-shape.js';
import type { FloatType, Product } from '../driver/device.js';
import type { Native, NativeLibrary, NativeValue, StatusFunction } from '../driver/native-library.js';
import { bindFunctions } from '../driver/native-library.js';

const parameters = {
  cublasLtCreate: 'void *handle',
  cublasLtDestroy: 'void *handle',
  cublasLtMatmulDescCreate: 'void *description, int computeType, int scaleType',
  cublasLtMatmulDescDestroy: 'void *description',
  cublasLtMatmulDescSetAttribute: 'void *description, int attribute, void *value, size_t bytes',
  cublasLtMatrixLayoutCreate:
    'void *layout, int type, uint64_t rows, uint64_t columns, int64_t leadingDimension',
  cublasLtMatrixLayoutDestroy: 'void *layout',
  cublasLtMatrixLayoutSetAttribute: 'void *layout, int attribute, void *value, size_t bytes',
  cublasLtMatmulPreferenceCreate: 'void *preference',
  cublasLtMatmulPreferenceDestroy: 'void *preference',
  cublasLtMatmulPreferenceSetAttribute: 'void *preference, int attribute, void *value, size_t bytes',
  cublasLtMatmulAlgoGetHeuristic:
    'void *handle, void *description, void *a, void *b, void *c, void *d, void *preference, int wanted, void *results, void *count',
  cublasLtMatmul:
    'void *handle, void *description, void *alpha, void *A, void *a, void *B, void *b, void *beta, void *C, void *c, ' +
    'void *D, void *d, void *algorithm, void *workspace, size_t workspaceBytes, void *stream',
} as const;

type ProductCall = keyof typeof parameters;

const computeFloat32 = 68; // CUBLAS_COMPUTE_32F
const dataTypes: Readonly<Record<FloatType, number>> = { float32: 0, float16: 2, bfloat16: 14 };
const operation = { transposeA: 3, transposeB: 4 };
const layout = { batchCount: 5, batchStride: 6 };
const preference = { workspaceBytes: 1, reductionSchemes: 3, alignments: { a: 5, b: 6, c: 7, d: 8 } };
const reduceInComputeType = 2;
const notSupported = 15;
/**
 * cublasLtMatmulHeuristicResult_t: the algorithm (64), its workspace (8), state (4), waves (4), reserved (16).
 */
const resultBytes = 96;
const stateOffset = 72;

export const workspaceBytes = 32 << 20;
/** Tried proposals, runs of each, and required speedup over the first. */
const [proposals, trials, clearlyFaster] = [16, 8, 0.96];
/** Max rows and min matrix elements to try. */
const [maxTriedRows, minTriedElements] = [256, 1 << 20];

/** Measures work on the device; undefined if it cannot run now. */
export type MeasureWork = (work: () => void) => number | undefined;

/** Growing sequences need new shapes all the time. */
const keptPlans = 4096;

interface Plan {
  readonly description: bigint;
  readonly layouts: readonly [a: bigint, b: bigint, d: bigint];
  readonly proposed: bigint;
  algorithm: bigint;
}

export class MatrixProducts {
  readonly #native: Native;
  readonly #functions: Readonly<Record<ProductCall, StatusFunction>>;
  readonly #describe: (status: number) => string;
  readonly #stream: bigint;
  readonly #workspace: bigint;
  readonly #handle: bigint;
  readonly #preference: bigint;
  /** alpha and beta. */
  readonly #scales: bigint;
  readonly #scaleValues: Float32Array;
  readonly #plans = new Map<string, Plan>();
  readonly #measure: MeasureWork;

  /** @param workspace `workspaceBytes` on the device */
  constructor(
    native: Native,
    library: NativeLibrary,
    stream: bigint,
    workspace: bigint,
    measure: MeasureWork = () => undefined,
  ) {
    this.#native = native;
    this.#measure = measure;
    this.#functions = bindFunctions(library, parameters);
    const name = library.bind('void *cublasLtGetStatusName(int status)') as (status: number) => bigint;
    this.#describe = (status) => native.readString(name(status));
    this.#stream = stream;
    this.#workspace = workspace;
    this.#handle = this.#create('cublasLtCreate');
    this.#preference = this.#create('cublasLtMatmulPreferenceCreate');
    this.#setPreference(preference.workspaceBytes, BigUint64Array.of(BigInt(workspaceBytes)));
    this.#setPreference(preference.reductionSchemes, Uint32Array.of(reduceInComputeType));
    this.#scales = native.allocate(8);
    this.#scaleValues = new Float32Array(native.view(this.#scales, 8));
  }

  multiply(product: Product): void {
    const shapes = toColumnMajor(product);
    const status = this.#start(this.#plan(product, shapes), product, shapes);
    if (status !== 0) throw this.#failure('cublasLtMatmul', status, product);
  }

  #start(
    { description, layouts, algorithm }: Plan,
    { scale, addend }: Product,
    { a, b, d }: ColumnMajorProduct,
  ): number {
    this.#scaleValues[0] = scale;
    this.#scaleValues[1] = addend === undefined ? 0 : 1;
    return this.#functions.cublasLtMatmul(
      this.#handle,
      description,
      this.#scales,
      a.address,
      layouts[0],
      b.address,
      layouts[1],
      this.#scales + 4n,
      addend ?? d.address,
      layouts[2],
      d.address,
      layouts[2],
      algorithm,
      this.#workspace,
      workspaceBytes,
      this.#stream,
    );
  }

  dispose(): void {
    for (const plan of this.#plans.values()) this.#destroy(plan);
    this.#plans.clear();
    this.#call('cublasLtMatmulPreferenceDestroy', this.#preference);
    this.#call('cublasLtDestroy', this.#handle);
    this.#native.free(this.#scales);
  }

  #plan(product: Product, shapes: ColumnMajorProduct): Plan {
    const key = productKey(shapes);
    const known = this.#plans.get(key);
    if (known !== undefined) return known;
    if (this.#plans.size >= keptPlans) {
      const [oldest, plan] = this.#plans.entries().next().value!;
      this.#plans.delete(oldest);
      this.#destroy(plan);
    }
    const plan = this.#createPlan(product, shapes);
    this.#plans.set(key, plan);
    return plan;
  }

  #createPlan(product: Product, { a, b, d, batch }: ColumnMajorProduct): Plan {
    const description = this.#create('cublasLtMatmulDescCreate', computeFloat32, dataTypes.float32);
    for (const [attribute, { transposed }] of [
      [operation.transposeA, a],
      [operation.transposeB, b],
    ] as const) {
      const value = Int32Array.of(transposed ? 1 : 0);
      this.#call('cublasLtMatmulDescSetAttribute', description, attribute, value, value.byteLength);
    }
    const layouts = [a, b, d].map((operand) => this.#createLayout(operand, batch)) as [
      bigint,
      bigint,
      bigint,
    ];
    const proposed = this.#native.allocate(proposals * resultBytes);
    const plan: Plan = { description, layouts, proposed, algorithm: proposed };
    const { alignments } = preference;
    this.#setPreference(alignments.a, Uint32Array.of(a.alignment));
    this.#setPreference(alignments.b, Uint32Array.of(b.alignment));
    this.#setPreference(alignments.c, Uint32Array.of(d.alignment));
    this.#setPreference(alignments.d, Uint32Array.of(d.alignment));
    const { status, usable } = this.#findAlgorithms(plan, isWorthTrying(product) ? proposals : 1);
    if (status === 0) {
      if (usable.length > 1) plan.algorithm = this.#try(usable, plan, product, { a, b, d, batch });
      return plan;
    }
    this.#destroy(plan);
    throw this.#failure('cublasLtMatmulAlgoGetHeuristic', status, product);
  }

  /** In the library's order; a status if there is none. */
  #findAlgorithms(
    { description, layouts: [a, b, d], proposed }: Plan,
    wanted: number,
  ): { readonly status: number; readonly usable: readonly bigint[] } {
    const count = new Int32Array(1);
    const status = this.#functions.cublasLtMatmulAlgoGetHeuristic(
      this.#handle,
      description,
      a,
      b,
      d,
      d,
      this.#preference,
      wanted,
      proposed,
      count,
    );
    if (status !== 0) return { status, usable: [] };
    const view = new DataView(this.#native.view(proposed, proposals * resultBytes));
    const states = Array.from({ length: count[0]! }, (_, index) =>
      view.getInt32(index * resultBytes + stateOffset, true),
    );
    const usable = states.flatMap((state, index) =>
      state === 0 ? [proposed + BigInt(index * resultBytes)] : [],
    );
    return { status: states[0] ?? notSupported, usable };
  }

  /** The fastest, or the first if that is nearly as fast or nothing can be tried. */
  #try(usable: readonly bigint[], plan: Plan, product: Product, shapes: ColumnMajorProduct): bigint {
    const time = (algorithm: bigint): number => {
      const statuses: number[] = [];
      const taken = this.#measure(() => {
        statuses.push(this.#start({ ...plan, algorithm }, product, shapes));
      });
      return taken !== undefined && statuses[0] === 0 ? taken : Infinity;
    };
    // In turns, because an idle device speeds up meanwhile.
    const rounds = Array.from({ length: trials }, () => usable.map(time));
    const times = usable.map((_, index) => Math.min(...rounds.map((round) => round[index]!)));
    const fastest = Math.min(...times);
    return fastest < clearlyFaster * times[0]! ? usable[times.indexOf(fastest)]! : usable[0]!;
  }

  #createLayout(
    { type, rows, columns, leadingDimension, batchStride }: ColumnMajorOperand,
    batch: number,
  ): bigint {
    const created = this.#create(
      'cublasLtMatrixLayoutCreate',
      dataTypes[type],
      rows,
      columns,
      leadingDimension,
    );
    if (batch === 1) return created;
    const [count, stride] = [Int32Array.of(batch), BigInt64Array.of(BigInt(batchStride))];
    this.#call('cublasLtMatrixLayoutSetAttribute', created, layout.batchCount, count, count.byteLength);
    this.#call('cublasLtMatrixLayoutSetAttribute', created, layout.batchStride, stride, stride.byteLength);
    return created;
  }

  #setPreference(attribute: number, value: ArrayBufferView): void {
    this.#call('cublasLtMatmulPreferenceSetAttribute', this.#preference, attribute, value, value.byteLength);
  }

  #destroy({ description, layouts, proposed }: Plan): void {
    for (const each of layouts) this.#call('cublasLtMatrixLayoutDestroy', each);
    this.#call('cublasLtMatmulDescDestroy', description);
    this.#native.free(proposed);
  }

  #create(name: ProductCall, ...values: NativeValue[]): bigint {
    const created = new BigUint64Array(1);
    this.#call(name, created, ...values);
    return created[0]!;
  }

  #call(name: ProductCall, ...values: NativeValue[]): void {
    const status = this.#functions[name](...values);
    if (status !== 0) throw this.#failure(name, status);
  }

  #failure(name: ProductCall, status: number, product?: Product): MistletoeError {
    const about = product === undefined ? '' : ` for the product ${describeProduct(product)}`;
    return new MistletoeError('runtime', `${name} failed${about}: ${this.#describe(status)}.`);
  }
}

function isWorthTrying({ rows, columns, inner, batch, right }: Product): boolean {
  return (
    right.type !== 'float32' && batch === 1 && rows <= maxTriedRows && inner * columns >= minTriedElements
  );
}
