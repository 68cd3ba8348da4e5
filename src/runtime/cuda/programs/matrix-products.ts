/**
 * Products by cuBLASLt. Descriptors and algorithms are cached per shape, type, layout and alignment, because choosing
 * them costs more than the launch. Sums are float32 without TF32, also across splits. The library's first proposal
 * runs: choosing by measured times would let noise change the last bits.
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
import type { Native, NativeLibrary, NativeValue } from '../../native-library.js';
import { bindFunctions, type StatusFunction } from '../driver/bind-functions.js';

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
/** Growing sequences need new shapes all the time. */
const keptPlans = 4096;

interface Plan {
  readonly description: bigint;
  readonly layouts: readonly [a: bigint, b: bigint, d: bigint];
  readonly algorithm: bigint;
}

export class MatrixProducts {
  readonly #functions: Readonly<Record<ProductCall, StatusFunction>>;
  readonly #describe: (status: number) => string;
  readonly #handle: bigint;
  readonly #preference: bigint;
  /** alpha and beta. */
  readonly #scales: bigint;
  readonly #scaleValues: Float32Array;
  readonly #plans = new Map<string, Plan>();

  /** @param workspace `workspaceBytes` on the device */
  constructor(
    private readonly native: Native,
    library: NativeLibrary,
    private readonly stream: bigint,
    private readonly workspace: bigint,
  ) {
    this.#functions = bindFunctions(library, parameters);
    const name = library.bind('void *cublasLtGetStatusName(int status)') as (status: number) => bigint;
    this.#describe = (status) => native.readString(name(status));
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
      this.workspace,
      workspaceBytes,
      this.stream,
    );
  }

  dispose(): void {
    for (const plan of this.#plans.values()) this.#destroy(plan);
    this.#plans.clear();
    this.#call('cublasLtMatmulPreferenceDestroy', this.#preference);
    this.#call('cublasLtDestroy', this.#handle);
    this.native.free(this.#scales);
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
    const plan: Plan = { description, layouts, algorithm: this.native.allocate(resultBytes) };
    const { alignments } = preference;
    for (const [side, { alignment }] of Object.entries({ a, b, c: d, d }))
      this.#setPreference(alignments[side as keyof typeof alignments], Uint32Array.of(alignment));
    const status = this.#findAlgorithm(plan);
    if (status === 0) return plan;
    this.#destroy(plan);
    throw this.#failure('cublasLtMatmulAlgoGetHeuristic', status, product);
  }

  #findAlgorithm({ description, layouts: [a, b, d], algorithm }: Plan): number {
    const count = new Int32Array(1);
    const status = this.#functions.cublasLtMatmulAlgoGetHeuristic(
      this.#handle,
      description,
      a,
      b,
      d,
      d,
      this.#preference,
      1,
      algorithm,
      count,
    );
    if (status !== 0) return status;
    if (count[0] === 0) return notSupported;
    return new DataView(this.native.view(algorithm, resultBytes)).getInt32(stateOffset, true);
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

  #destroy({ description, layouts, algorithm }: Plan): void {
    for (const each of layouts) this.#call('cublasLtMatrixLayoutDestroy', each);
    this.#call('cublasLtMatmulDescDestroy', description);
    this.native.free(algorithm);
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
