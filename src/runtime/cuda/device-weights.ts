/** Weights in a device's memory: each is brought there once, in the type that its readers want, in pieces that never fill the host's memory. */
import { open } from 'node:fs/promises';
import { describeCause, MistletoeError } from '../../core/errors.js';
import { decodeHalves, isHalf } from '../../core/half-floats.js';
import type { TensorOf } from '../../graph/tensor.js';
import { findWeight } from '../find-weight.js';
import type { WeightStore } from '../weights.js';
import type { DeviceMemory } from './device-memory.js';
import type { Allocation } from './device-rows.js';
import type { Address, ElementType, Kernel, KernelModule } from './device.js';
import { bytesOf } from './element-size.js';
import { halfCode } from './half-code.js';

const chunkBytes = 32 * 1024 * 1024;

const narrowSource = (type: 'bfloat16' | 'float16'): string => `${halfCode}
extern "C" __global__ void narrow(unsigned short* to, const float* from, int count) {
  for (int at = blockIdx.x * blockDim.x + threadIdx.x; at < count; at += gridDim.x * blockDim.x)
    to[at] = ${type === 'bfloat16' ? 'toBfloat16' : 'toFloat16'}(from[at]);
}
`;

export class DeviceWeights {
  private readonly held = new Map<WeightStore, Map<string, Promise<Allocation>>>();
  private readonly modules = new Map<string, KernelModule>();

  constructor(private readonly memory: DeviceMemory) {}

  async find(
    stores: readonly WeightStore[],
    tensor: TensorOf<'weight'>,
    type: ElementType,
  ): Promise<Address> {
    const store = findWeight(stores, tensor);
    const { name } = tensor.attributes;
    const key = `${type} ${name}`;
    const ofStore = this.held.get(store) ?? new Map<string, Promise<Allocation>>();
    this.held.set(store, ofStore);
    const known = ofStore.get(key);
    if (known !== undefined) return (await known).address;
    const bringing = this.bring(store, name, tensor, type);
    ofStore.set(key, bringing);
    // A failure does not stay: whoever asks next tries again.
    bringing.catch(() => ofStore.delete(key));
    return (await bringing).address;
  }

  private async bring(
    store: WeightStore,
    name: string,
    { dtype, shape }: TensorOf<'weight'>,
    type: ElementType,
  ): Promise<Allocation> {
    const count = (shape as readonly number[]).reduce((product, size) => product * size, 1);
    const allocation = this.memory.take(count * bytesOf(type));
    try {
      let done = 0;
      for await (const piece of readPieces(store, name)) {
        const values = isHalf(dtype) && dtype !== type ? decodeHalves(asBits(piece), dtype) : undefined;
        const from = values ?? piece;
        const to = allocation.address + BigInt(done * bytesOf(type));
        const elements = values?.length ?? piece.byteLength / bytesOf(dtype);
        if (type === dtype || type === 'float32') this.memory.upload(to, from);
        else this.narrow(to, from, elements, type as 'bfloat16' | 'float16');
        done += elements;
      }
      return allocation;
    } catch (cause) {
      allocation.free();
      throw cause;
    }
  }

  /** float32 values to a half type, on the device. */
  private narrow(to: Address, values: ArrayBufferView, count: number, type: 'bfloat16' | 'float16'): void {
    const { device } = this.memory;
    const module = this.modules.get(type) ?? device.compile(narrowSource(type));
    this.modules.set(type, module);
    const kernel: Kernel = module.kernel('narrow');
    const staging = this.memory.take(values.byteLength);
    device.upload(staging.address, values);
    device.launch({
      kernel,
      grid: [Math.max(1, Math.min(65_535, Math.ceil(count / 256))), 1, 1],
      block: 256,
      arguments: [to, staging.address, count],
    });
    staging.free();
  }

  async dispose(): Promise<void> {
    for (const ofStore of this.held.values()) {
      for (const bringing of ofStore.values()) (await bringing.catch(() => undefined))?.free();
    }
    this.held.clear();
    for (const module of this.modules.values()) module.unload();
  }
}

const asBits = (bytes: Uint8Array): Uint16Array =>
  new Uint16Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 2);

async function* readPieces(store: WeightStore, name: string): AsyncGenerator<Uint8Array> {
  if (store.kind === 'memory') {
    const { data } = store.tensors.get(name)!;
    yield new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    return;
  }
  const { offsetBytes, sizeBytes } = store.tensors.get(name)!;
  try {
    const file = await open(store.path, 'r');
    try {
      for (let start = 0; start < sizeBytes; start += chunkBytes) {
        const piece = new Uint8Array(Math.min(chunkBytes, sizeBytes - start));
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
