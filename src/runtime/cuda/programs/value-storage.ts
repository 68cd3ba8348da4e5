/**
 * Types and layouts of values in memory. Values that only products read have the products' type, and so have tables of
 * embeddings. So do products whose elementwise results only products read (a gate), which rounds them once more.
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
  readonly narrowsAttention: boolean;
}

export class ValueStorage {
  private readonly outputs: ReadonlySet<Tensor>;

  /**
   * @param order all tensors, inputs first
   * @param resident tensors in memory
   */
  constructor(
    private readonly order: readonly Tensor[],
    outputs: NamedTensors,
    private readonly resident: ReadonlySet<Tensor>,
    private readonly options: StorageOptions,
  ) {
    this.outputs = new Set(Object.values(outputs).map(rootOf));
  }

  typeOf(tensor: Tensor): ElementType {
    const { dtype, operation } = tensor;
    if (dtype !== 'float32' || this.options.productType === 'float32') return dtype;
    if (operation === 'input' || operation === 'constant') return dtype;
    const isForProducts = this.readersOf(tensor).every(
      (reader) =>
        reader.operation === 'contract' ||
        reader.operation === 'expertProduct' ||
        reader.operation === 'reshape' ||
        (operation === 'weight' && reader.operation === 'gatherRows') ||
        (reader.operation === 'attention' && this.isNarrowIn(reader, tensor)),
    );
    if (operation === 'weight') return isForProducts ? this.options.productType : dtype;
    // A value too large for float16 may become small before it is stored.
    const mayRound = operation === 'contract' && this.options.productType === 'bfloat16';
    const isNarrow = isForProducts || (mayRound && this.isRounded(tensor));
    return isNarrow && !this.outputs.has(tensor) ? this.options.productType : dtype;
  }

  isTransposed(tensor: Tensor): boolean {
    return (
      !this.outputs.has(tensor) &&
      this.readersOf(tensor).every(({ operation }) => operation === 'contract') &&
      this.wantsTransposed(tensor)
    );
  }

  /**
   * Whether the first product that reads a weight matrix sums along its first axis. Such a matrix is stored
   * transposed, as in checkpoints, so that the terms of an element are contiguous. The first product is of the
   * forward pass, so programs with and without gradients share the matrix.
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

  private isRounded(tensor: Tensor): boolean {
    const readers = this.order.filter(({ inputs }) => inputs.includes(tensor));
    const isKept = (reader: Tensor): boolean =>
      isElementwise(reader) ||
      movesElements.has(reader.operation) ||
      (this.options.narrowsAttention && reader.operation === 'rotate' && reader.inputs[0] === tensor);
    return (
      readers.length > 0 &&
      readers.every((reader) =>
        reader.operation === 'attention'
          ? this.isNarrowIn(reader, tensor)
          : isKept(reader) &&
            (this.resident.has(reader)
              ? this.typeOf(reader) === this.options.productType
              : this.isRounded(reader)),
      )
    );
  }

  private isNarrowIn({ inputs: [, mask] }: Tensor, tensor: Tensor): boolean {
    return this.options.narrowsAttention && rootOf(mask!) !== tensor;
  }

  private readersOf(tensor: Tensor): readonly Tensor[] {
    return this.order.filter(({ inputs }) => inputs.some((side) => rootOf(side) === tensor));
  }
}
