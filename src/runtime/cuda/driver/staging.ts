/**
 * Pinned host memory for asynchronous copies. Uploads are copied into it, because the caller may change its array at
 * once. Downloads land in it, because an asynchronous copy into ordinary memory would block the thread until all
 * earlier work is done.
 */
import { type Driver, statusCodes } from './driver.js';
import type { Native } from '../../native-library.js';

interface PinnedMemory {
  readonly address: bigint;
  readonly bytes: Uint8Array;
}

const disableTiming = 2;
const slotBytes = 8 << 20;
const slotCount = 3;
const alignment = 256;
const smallestDownload = 64 << 10;
const largestKept = 64 << 20;

export class Staging {
  readonly #driver: Driver;
  readonly #native: Pick<Native, 'view'>;
  readonly #stream: bigint;
  /** Filled in turn; a slot is reused after the event of its last copy. */
  readonly #slots: { readonly memory: PinnedMemory; readonly event: bigint; recorded: boolean }[] = [];
  #slot = 0;
  #position = 0;
  readonly #kept = new Map<number, PinnedMemory[]>();
  readonly #events: bigint[] = [];

  constructor(driver: Driver, native: Pick<Native, 'view'>, stream: bigint) {
    this.#driver = driver;
    this.#native = native;
    this.#stream = stream;
  }

  upload(to: bigint, values: Uint8Array): void {
    for (let done = 0; done < values.length;) {
      const { memory } = this.#roomySlot();
      const count = Math.min(values.length - done, slotBytes - this.#position);
      memory.bytes.set(values.subarray(done, done + count), this.#position);
      const from = memory.address + BigInt(this.#position);
      this.#driver.call('cuMemcpyHtoDAsync_v2', to + BigInt(done), from, count, this.#stream);
      this.#position = Math.min(slotBytes, Math.ceil((this.#position + count) / alignment) * alignment);
      done += count;
    }
  }

  #roomySlot(): { readonly memory: PinnedMemory } {
    const current = this.#slots[this.#slot];
    if (current !== undefined && this.#position < slotBytes) return current;
    if (current !== undefined) {
      this.#driver.call('cuEventRecord', current.event, this.#stream);
      current.recorded = true;
      this.#slot = (this.#slot + 1) % slotCount;
    }
    this.#position = 0;
    const next = this.#slots[this.#slot];
    if (next === undefined) {
      const slot = { memory: this.#pin(slotBytes), event: this.#createEvent(), recorded: false };
      this.#slots.push(slot);
      return slot;
    }
    if (next.recorded) this.#driver.call('cuEventSynchronize', next.event);
    return next;
  }

  /** Starts the copy now, so that later work cannot change the values. */
  download(from: bigint, into: Uint8Array): { readonly event: bigint; readonly finish: () => void } {
    const size = Math.max(smallestDownload, 2 ** Math.ceil(Math.log2(into.length)));
    const memory = this.#kept.get(size)?.pop() ?? this.#pin(size);
    this.#driver.call('cuMemcpyDtoHAsync_v2', memory.address, from, into.length, this.#stream);
    return {
      event: this.record(),
      finish: () => {
        into.set(memory.bytes.subarray(0, into.length));
        if (size > largestKept) this.#driver.call('cuMemFreeHost', memory.address);
        else this.#kept.set(size, [...(this.#kept.get(size) ?? []), memory]);
      },
    };
  }

  record(): bigint {
    const event = this.#events.pop() ?? this.#createEvent();
    this.#driver.call('cuEventRecord', event, this.#stream);
    return event;
  }

  passed(event: bigint): boolean {
    const status = this.#driver.status('cuEventQuery', event);
    if (status === statusCodes.notReady) return false;
    if (status !== 0) throw this.#driver.failure('cuEventQuery', status);
    this.#events.push(event);
    return true;
  }

  dispose(): void {
    const memories = [...this.#slots.map(({ memory }) => memory), ...[...this.#kept.values()].flat()];
    for (const { address } of memories) this.#driver.call('cuMemFreeHost', address);
    const events = [...this.#slots.map(({ event }) => event), ...this.#events];
    for (const event of events) this.#driver.call('cuEventDestroy_v2', event);
    this.#slots.length = 0;
    this.#kept.clear();
    this.#events.length = 0;
  }

  #createEvent(): bigint {
    return this.#driver.pointer('cuEventCreate', disableTiming);
  }

  #pin(bytes: number): PinnedMemory {
    const address = this.#driver.pointer('cuMemAllocHost_v2', bytes);
    return { address, bytes: new Uint8Array(this.#native.view(address, bytes)) };
  }
}
