/** Uploads each weight once, in its readers' type, piece by piece. */
import { open } from 'node:fs/promises';
import { describeCause, MistletoeError } from '../../../core/errors.js';
import type { TensorOf } from '../../../graph/tensor.js';
import {
  countElements,
  type DirectPart,
  type FileWeights,
  type WeightStore,
  findWeight,
} from '../../weights.js';
import type { Allocation, DeviceMemory } from '../driver/device-memory.js';
import type { Address, ElementType, FloatType, KernelModule } from '../driver/device.js';
import { halfCode } from '../kernels/device-code.js';
import { bytesOf } from '../kernels/kernel-text.js';

const words: Readonly<
  Record<FloatType, { readonly type: string; readonly from: string; readonly to: string }>
> = {
  float32: { type: 'float', from: '', to: '' },
  bfloat16: { type: 'unsigned short', from: 'fromBfloat16', to: 'toBfloat16' },
  float16: { type: 'unsigned short', from: 'fromFloat16', to: 'toFloat16' },
};

/** Adjacent threads write adjacent values; scattered reads hit the cache. */
function writeSource(stored: FloatType, wanted: FloatType): string {
  const value =
    stored === wanted ? 'from[source]' : `${words[wanted].to}(${words[stored].from}(from[source]))`;
  return `${halfCode}
extern "C" __global__ void place(${words[wanted].type}* to, const ${words[stored].type}* from, int rows, int columns, int width, int isTransposed) {
  const long long total = (long long)rows * columns;
  const int inner = isTransposed ? rows : columns;
  for (long long at = blockIdx.x * (long long)blockDim.x + threadIdx.x; at < total; at += (long long)gridDim.x * blockDim.x) {
    const long long line = at / inner;
    const long long offset = at % inner;
    const long long source = isTransposed ? offset * columns + line : at;
    to[line * width + offset] = ${value};
  }
}
`;
}

/** Smaller pieces share one staging allocation. */
const stagingBytes = 8 * 1024 * 1024;

const addressOf = (weight: Address, type: FloatType, index: number): Address =>
  weight + BigInt(index * bytesOf(type));

const chunkBytes = 8 * 1024 * 1024;

export class DeviceWeights {
  private readonly held = new Map<WeightStore, Map<string, Promise<Allocation>>>();
  /** [types] Kernels that convert and transpose rows of a stored tensor. */
  private readonly modules = new Map<string, KernelModule>();

  constructor(private readonly memory: DeviceMemory) {}

  async find(
    stores: readonly WeightStore[],
    tensor: TensorOf<'weight'>,
    type: ElementType,
    isTransposed = false,
  ): Promise<Address> {
    const store = findWeight(stores, tensor);
    const { name } = tensor.attributes;
    const key = `${type}${isTransposed ? ' transposed' : ''} ${name}`;
    const ofStore = this.held.get(store) ?? new Map<string, Promise<Allocation>>();
    this.held.set(store, ofStore);
    const known = ofStore.get(key);
    if (known !== undefined) return (await known).address;
    const uploading = this.upload(store, name, tensor, { wanted: type as FloatType, isTransposed });
    ofStore.set(key, uploading);
    // The next caller tries again.
    uploading.catch(() => ofStore.delete(key));
    return (await uploading).address;
  }

  private async upload(
    store: WeightStore,
    name: string,
    tensor: TensorOf<'weight'>,
    { wanted, isTransposed }: { readonly wanted: FloatType; readonly isTransposed: boolean },
  ): Promise<Allocation> {
    const shape = tensor.shape as readonly number[];
    const allocation = this.memory.take(countElements(shape) * bytesOf(wanted));
    try {
      let firstColumn = 0;
      // In a transposed matrix, joined parts are contiguous.
      const [width, perColumn] = isTransposed ? [shape[0]!, shape[0]!] : [shape.at(-1) ?? 1, 1];
      for (const part of partsOf(store, name, tensor)) {
        const to = addressOf(allocation.address, wanted, firstColumn * perColumn);
        const isPartTransposed = part.isTransposed !== isTransposed;
        await this.uploadPart({ ...part, isTransposed: isPartTransposed }, { to, width, wanted });
        firstColumn += (part.isTransposed ? part.shape[0] : part.shape.at(-1)) ?? 1;
      }
      return allocation;
    } catch (cause) {
      allocation.free();
      throw cause;
    }
  }

  private async uploadPart(
    { dtype, shape, isTransposed, read }: DirectPart,
    { to, width, wanted }: { readonly to: Address; readonly width: number; readonly wanted: FloatType },
  ): Promise<void> {
    const columns = shape.at(-1) ?? 1;
    // Contiguous data is one long row.
    const isWhole = !isTransposed && columns === width;
    let done = 0;
    for await (const bytes of read()) {
      const elements = bytes.byteLength / bytesOf(dtype);
      const [rows, inRow] = isWhole ? [1, elements] : [elements / columns, columns];
      const start = addressOf(to, wanted, isWhole ? done : (done / columns) * (isTransposed ? 1 : width));
      done += elements;
      if (dtype === wanted && !isTransposed && rows === 1) {
        this.memory.device.upload(start, bytes);
        continue;
      }
      const staging = this.memory.take(Math.max(stagingBytes, bytes.byteLength));
      try {
        this.memory.device.upload(staging.address, bytes);
        this.memory.device.launch({
          kernel: this.findModule(dtype, wanted).kernel('place'),
          grid: [Math.max(1, Math.min(65_535, Math.ceil(elements / 256))), 1, 1],
          block: 256,
          arguments: [start, staging.address, rows, inRow, isWhole ? elements : width, Number(isTransposed)],
        });
      } finally {
        // The next user writes after this kernel, on the same stream.
        staging.free();
      }
    }
  }

  private findModule(stored: FloatType, wanted: FloatType): KernelModule {
    const key = `${stored} ${wanted}`;
    const module = this.modules.get(key) ?? this.memory.device.compile(writeSource(stored, wanted));
    this.modules.set(key, module);
    return module;
  }

  async dispose(): Promise<void> {
    for (const ofStore of this.held.values()) {
      for (const uploading of ofStore.values()) (await uploading.catch(() => undefined))?.free();
    }
    this.held.clear();
    for (const module of this.modules.values()) module.unload();
  }
}

/** A cache file has one part, in the program's layout. */
function partsOf(store: WeightStore, name: string, tensor: TensorOf<'weight'>): readonly DirectPart[] {
  if (store.kind === 'checkpoint') return store.tensors.get(name)!.parts;
  // Whole rows, because they may have to be transposed.
  const { dtype = 'float32' } = store.tensors.get(name)!;
  const rowBytes = ((tensor.shape.at(-1) ?? 1) as number) * bytesOf(dtype);
  const pieceBytes = Math.max(1, Math.floor(chunkBytes / rowBytes)) * rowBytes;
  const read =
    store.kind === 'file'
      ? () => readFile(store, name, pieceBytes)
      : () => cutUp(store.tensors.get(name)!.data, pieceBytes);
  const whole = { shape: tensor.shape as readonly number[], isTransposed: false };
  return [{ ...whole, dtype, read }];
}

function* cutUp(
  { buffer, byteOffset, byteLength }: ArrayBufferView,
  pieceBytes: number,
): Generator<Uint8Array> {
  for (let start = 0; start < byteLength; start += pieceBytes)
    yield new Uint8Array(buffer, byteOffset + start, Math.min(pieceBytes, byteLength - start));
}

async function* readFile(store: FileWeights, name: string, pieceBytes: number): AsyncGenerator<Uint8Array> {
  const { offsetBytes, sizeBytes } = store.tensors.get(name)!;
  try {
    const file = await open(store.path, 'r');
    try {
      for (let start = 0; start < sizeBytes; start += pieceBytes) {
        const piece = new Uint8Array(Math.min(pieceBytes, sizeBytes - start));
        const { bytesRead } = await file.read(piece, 0, piece.length, offsetBytes + start);
        if (bytesRead !== piece.length)
          throw new MistletoeError('checkpoint', `The weight file "${store.path}" ends within "${name}".`);
        yield piece;
      }
    } finally {
      await file.close();
    }
  } catch (cause) {
    if (cause instanceof MistletoeError) throw cause;
    const message = `The weight file "${store.path}" could not be read: ${describeCause(cause)}`;
    throw new MistletoeError('checkpoint', message, { cause });
  }
}
