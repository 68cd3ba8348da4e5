/**
 * How the values of a graph lie in memory: in which type, and matrices of weights in which order. What only products read
 * is kept as they read it. So is a product of which only such values are made, element by element: a gate and what it lets
 * through are written and read as halves, and rounded once more than their own product is.
 */
import type { Tensor, TensorOf } from '../../../graph/tensor.js';
import type { NamedTensors } from '../../program.js';
import type { ElementType, FloatType } from '../driver/device.js';
import { isElementwise } from '../kernels/element-code.js';
import { rootOf } from './step.js';
import { requireProduct } from './product-shape.js';

const movesElements: ReadonlySet<string> = new Set(['transpose', 'slice', 'concatenate', 'broadcast']);

export interface StorageOptions {
  readonly productType: FloatType;
  /** Attention reads queries, keys and values as products do. */
  readonly narrowsAttention: boolean;
}

export class ValueStorage {
  private readonly outputs: ReadonlySet<Tensor>;
  private readonly productType: FloatType;
  private readonly narrowsAttention: boolean;

  /**
   * @param order all tensors, each behind its inputs
   * @param resident those that lie in memory
   */
  constructor(
    private readonly order: readonly Tensor[],
    outputs: NamedTensors,
    private readonly resident: ReadonlySet<Tensor>,
    { productType, narrowsAttention }: StorageOptions,
  ) {
    this.productType = productType;
    this.narrowsAttention = narrowsAttention;
    this.outputs = new Set(Object.values(outputs).map(rootOf));
  }

  typeOf(tensor: Tensor): ElementType {
    const { dtype, operation } = tensor;
    if (dtype !== 'float32' || this.productType === 'float32') return dtype;
    if (operation === 'input' || operation === 'constant') return dtype;
    const isForProducts = this.readersOf(tensor).every(
      (reader) =>
        reader.operation === 'contract' ||
        reader.operation === 'reshape' ||
        (reader.operation === 'attention' && this.isNarrowIn(reader, tensor)),
    );
    if (operation === 'weight') return isForProducts ? this.productType : dtype;
    // What a float16 cannot hold may still be made small before it is kept.
    const mayRound = operation === 'contract' && this.productType === 'bfloat16';
    const isNarrow = isForProducts || (mayRound && this.isRounded(tensor));
    return isNarrow && !this.outputs.has(tensor) ? this.productType : dtype;
  }

  /** Whether a weight lies with its axes exchanged for all that read it. */
  isTransposed(tensor: Tensor): boolean {
    return (
      !this.outputs.has(tensor) &&
      this.readersOf(tensor).every(({ operation }) => operation === 'contract') &&
      this.wantsTransposed(tensor)
    );
  }

  /**
   * Whether the first product that reads a matrix of weights sums along its first axis. Such a matrix lies the other way
   * round, as checkpoints have it: what makes one element then follows each other in memory. The first product is one of
   * the forward pass, so that programs with gradients and without have the same matrix in common.
   */
  wantsTransposed(tensor: Tensor): boolean {
    const products = this.readersOf(tensor).filter(({ operation }) => operation === 'contract');
    const [first] = products;
    const isDirect = products.every(({ inputs }) =>
      inputs.every((side) => side === tensor || rootOf(side) !== tensor),
    );
    return (
      first !== undefined &&
      isDirect &&
      tensor.shape.length === 2 &&
      first.inputs[1] === tensor &&
      requireProduct(first as TensorOf<'contract'>).right.innerFirst
    );
  }

  /** Whether all that is made of a tensor, element by element, is kept as products read it. */
  private isRounded(tensor: Tensor): boolean {
    const readers = this.order.filter(({ inputs }) => inputs.includes(tensor));
    const isKept = (reader: Tensor): boolean =>
      isElementwise(reader) ||
      movesElements.has(reader.operation) ||
      (this.narrowsAttention && reader.operation === 'rotate' && reader.inputs[0] === tensor);
    return (
      readers.length > 0 &&
      readers.every((reader) =>
        reader.operation === 'attention'
          ? this.isNarrowIn(reader, tensor)
          : isKept(reader) &&
            (this.resident.has(reader) ? this.typeOf(reader) === this.productType : this.isRounded(reader)),
      )
    );
  }

  /** Whether attention rounds what it reads of this: everything but the mask. */
  private isNarrowIn({ inputs: [, mask] }: Tensor, tensor: Tensor): boolean {
    return this.narrowsAttention && rootOf(mask!) !== tensor;
  }

  private readersOf(tensor: Tensor): readonly Tensor[] {
    return this.order.filter(({ inputs }) => inputs.some((side) => rootOf(side) === tensor));
  }
}
