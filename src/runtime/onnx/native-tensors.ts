/**
 * The tensors of a session, one for each input or output. A tensor points to memory and has a fixed shape, so it is made
 * again when either changes. Small values are copied through memory of their own, whose address does not change.
 */
import { takeArray } from '../spare-arrays.js';
import { elementTypes } from './builder.js';
import type { NativeApi } from './native-api.js';
import type { SessionData, SessionValue, WantedOutput } from './session.js';

/** Copying less than this is faster than making a tensor. */
const smallBytes = 64 * 1024;
const maxAxes = 16;

interface Slot {
  address: number;
  bytes: number;
  dims: readonly number[];
  /** Own memory, for small values. */
  staging: { readonly address: bigint; readonly block: ArrayBuffer } | undefined;
}

export class NativeTensors {
  /** Of the array of tensors. */
  readonly address: number;
  /** As the bits of doubles: these are copied without objects on the way. */
  readonly addresses: Float64Array;
  /** Counts the tensors made. */
  version = 0;
  private readonly handles: BigUint64Array;
  private readonly memory: bigint;
  private readonly shape: BigInt64Array;
  private readonly shapeAddress: number;
  private readonly slots: readonly Slot[];

  constructor(
    private readonly api: NativeApi,
    count: number,
  ) {
    const bytes = 8 * (count + maxAxes);
    this.memory = api.native.allocate(bytes);
    const block = api.native.view(this.memory, bytes);
    this.addresses = new Float64Array(block, 0, count).fill(0);
    this.handles = new BigUint64Array(block, 0, count);
    this.shape = new BigInt64Array(block, 8 * count, maxAxes);
    this.address = Number(this.memory);
    this.shapeAddress = this.address + 8 * count;
    this.slots = Array.from({ length: count }, () => ({
      address: 0,
      bytes: 0,
      dims: [],
      staging: undefined,
    }));
  }

  place(index: number, { type, data, dims, isShared }: SessionValue): void {
    const slot = this.slots[index]!;
    const bytes = data.byteLength;
    if (isShared || bytes > smallBytes) {
      this.point(index, type, addressOf(this.api, data), bytes, dims);
      return;
    }
    const { address, block } = this.stage(slot, bytes);
    viewAs(type, block, data.length).set(data);
    this.point(index, type, Number(address), bytes, dims);
  }

  /** Returns what takes the values after the run. */
  prepare(index: number, { type, dims }: WantedOutput): () => SessionData {
    const slot = this.slots[index]!;
    const count = dims.reduce((product, dimension) => product * dimension, 1);
    const bytes = count * (type === 'bool' ? 1 : 4);
    if (bytes > smallBytes) {
      const data = type === 'float32' ? takeArray(count) : viewAs(type, new ArrayBuffer(bytes), count);
      this.point(index, type, addressOf(this.api, data), bytes, dims);
      return () => data;
    }
    const { address, block } = this.stage(slot, bytes);
    this.point(index, type, Number(address), bytes, dims);
    return () => {
      const values = viewAs(type, block, count);
      if (!(values instanceof Float32Array)) return values.slice();
      const data = takeArray(count);
      data.set(values);
      return data;
    };
  }

  release(): void {
    this.slots.forEach(({ staging }, index) => {
      this.drop(index);
      if (staging !== undefined) this.api.native.free(staging.address);
    });
    this.api.native.free(this.memory);
  }

  private stage(slot: Slot, bytes: number): NonNullable<Slot['staging']> {
    if (slot.staging !== undefined && slot.staging.block.byteLength >= bytes) return slot.staging;
    if (slot.staging !== undefined) this.api.native.free(slot.staging.address);
    const room = Math.max(64, 2 ** Math.ceil(Math.log2(bytes)));
    const address = this.api.native.allocate(room);
    return (slot.staging = { address, block: this.api.native.view(address, room) });
  }

  private point(
    index: number,
    type: SessionValue['type'],
    address: number,
    bytes: number,
    dims: readonly number[],
  ): void {
    const slot = this.slots[index]!;
    if (slot.address === address && slot.bytes === bytes && areEqual(slot.dims, dims)) return;
    this.drop(index);
    for (let axis = 0; axis < dims.length; axis++) this.shape[axis] = BigInt(dims[axis]!);
    this.api.call.CreateTensorWithDataAsOrtValue(
      this.api.memory,
      address,
      bytes,
      this.shapeAddress,
      dims.length,
      elementTypes[type],
      this.address + 8 * index,
    );
    slot.address = address;
    slot.bytes = bytes;
    slot.dims = dims;
    this.version += 1;
  }

  private drop(index: number): void {
    const slot = this.slots[index]!;
    if (slot.address === 0) return;
    this.api.release.value(this.handles[index]!);
    slot.address = 0;
  }
}

function areEqual(left: readonly number[], right: readonly number[]): boolean {
  if (left.length !== right.length) return false;
  for (let axis = 0; axis < left.length; axis++) if (left[axis] !== right[axis]) return false;
  return true;
}

function viewAs(type: SessionValue['type'], block: ArrayBuffer, count: number): SessionData {
  if (type === 'float32') return new Float32Array(block, 0, count);
  return type === 'int32' ? new Int32Array(block, 0, count) : new Uint8Array(block, 0, count);
}

/** [buffer] Asked for once: finding an address costs more than a run needs for anything else. */
const knownAddresses = new WeakMap<ArrayBufferLike, number>();

function addressOf({ native }: NativeApi, { buffer, byteOffset }: ArrayBufferView): number {
  let address = knownAddresses.get(buffer);
  if (address === undefined) knownAddresses.set(buffer, (address = Number(native.addressOf(buffer))));
  return address + byteOffset;
}
