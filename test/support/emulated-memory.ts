/**
 * The emulated device's memory. Each allocation lies between guards, words that nothing may write to, and begins as NaN in
 * every type of float; all that names memory is held to the allocations there are.
 */
import type { LibraryHandle } from 'koffi';
import { MistletoeError } from '../../src/core/errors.js';
import { OutOfMemoryError } from '../../src/runtime/program.js';
import type { Address } from '../../src/runtime/cuda/driver/device.js';

export interface Allocation {
  readonly address: Address;
  readonly bytes: number;
  /** How many were made before it; its guards tell it from others by this. */
  readonly serial: number;
}

export interface EmulatedMemory {
  readonly usedBytes: () => number;
  readonly allocate: (bytes: number) => Address;
  readonly free: (address: Address) => void;
  readonly freeAll: () => void;
  readonly write: (to: Address, values: ArrayBufferView) => void;
  readonly read: (from: Address, into: ArrayBufferView) => void;
  readonly copy: (to: Address, from: Address, bytes: number) => void;
  readonly clear: (at: Address, bytes: number) => void;
  /** The allocation that these bytes lie in; throws where there is none. `purpose` begins the message. */
  readonly find: (purpose: string, address: Address, bytes: number) => Allocation;
  /** Throws where something wrote to the guards around it. */
  readonly checkGuards: (purpose: string, allocation: Allocation) => void;
}

export const describeAddress = (address: Address): string => `0x${address.toString(16)}`;

export function createEmulatedMemory(library: LibraryHandle, totalBytes: number): EmulatedMemory {
  const functions = bindFunctions(library);
  const allocations: Allocation[] = []; // by address
  let usedBytes = 0;
  let made = 0;

  /** How many allocations begin at the address or before it. */
  const countUpTo = (address: Address): number => {
    let [low, high] = [0, allocations.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (allocations[middle]!.address <= address) low = middle + 1;
      else high = middle;
    }
    return low;
  };
  const find = (purpose: string, address: Address, bytes: number): Allocation => {
    const range = `${bytes} bytes at ${describeAddress(address)}`;
    const allocation = allocations[countUpTo(address) - 1];
    if (allocation === undefined || address >= allocation.address + BigInt(allocation.bytes))
      throw failure(`${purpose}: ${range} lie in no allocation`, 'It may have been freed before.');
    if (address + BigInt(bytes) > allocation.address + BigInt(allocation.bytes))
      throw failure(`${purpose}: ${range} end past ${describeAllocation(allocation)}`);
    return allocation;
  };
  const checkGuards = (purpose: string, allocation: Allocation): void => {
    const side = functions.findOverrun(allocation.address, allocation.bytes, allocation.serial);
    if (side === 0) return;
    const where = side < 0 ? 'before the beginning of' : 'past the end of';
    throw failure(`${purpose}: a kernel wrote ${where} ${describeAllocation(allocation)}`);
  };
  const take = (index: number): void => {
    const [{ address, bytes }] = allocations.splice(index, 1) as [Allocation];
    usedBytes -= bytes;
    functions.free(address);
  };

  return {
    usedBytes: () => usedBytes,
    allocate(bytes) {
      if (!Number.isSafeInteger(bytes) || bytes < 1)
        throw failure(`allocate: ${bytes} is not a number of bytes above 0`);
      const address = bytes > totalBytes - usedBytes ? 0n : BigInt(functions.allocate(bytes, made));
      if (address === 0n)
        throw new OutOfMemoryError(
          `allocate: no room for ${bytes} bytes; ${totalBytes - usedBytes} of ${totalBytes} are free.`,
          'Ask for less.',
        );
      allocations.splice(countUpTo(address), 0, { address, bytes, serial: made++ });
      usedBytes += bytes;
      return address;
    },
    free(address) {
      const index = countUpTo(address) - 1;
      const allocation = allocations[index];
      if (allocation?.address !== address)
        throw failure(
          `free: no allocation begins at ${describeAddress(address)}`,
          'It may be freed already.',
        );
      checkGuards('free', allocation);
      take(index);
    },
    freeAll() {
      while (allocations.length > 0) take(allocations.length - 1);
    },
    write(to, values) {
      if (values.byteLength === 0) return;
      find('upload', to, values.byteLength);
      functions.write(to, bytesOf(values), values.byteLength);
    },
    read(from, into) {
      if (into.byteLength === 0) return;
      checkGuards('download', find('download', from, into.byteLength));
      functions.read(bytesOf(into), from, into.byteLength);
    },
    copy(to, from, bytes) {
      if (bytes === 0) return;
      find('copy', to, bytes);
      find('copy', from, bytes);
      if (to < from + BigInt(bytes) && from < to + BigInt(bytes))
        throw failure(`copy: ${bytes} bytes from ${describeAddress(from)} overlap ${describeAddress(to)}`);
      functions.copy(to, from, bytes);
    },
    clear(at, bytes) {
      if (bytes === 0) return;
      find('clear', at, bytes);
      functions.clear(at, bytes);
    },
    find,
    checkGuards,
  };
}

const describeAllocation = ({ address, bytes }: Allocation): string =>
  `the allocation of ${bytes} bytes at ${describeAddress(address)}`;

function failure(message: string, hint?: string): MistletoeError {
  return new MistletoeError('runtime', `${message}.`, hint === undefined ? {} : { hint });
}

const bytesOf = (view: ArrayBufferView): Uint8Array =>
  new Uint8Array(view.buffer, view.byteOffset, view.byteLength);

interface MemoryFunctions {
  allocate(bytes: number, serial: number): number | bigint;
  free(address: Address): void;
  findOverrun(address: Address, bytes: number, serial: number): number;
  write(to: Address, from: Uint8Array, bytes: number): void;
  read(to: Uint8Array, from: Address, bytes: number): void;
  copy(to: Address, from: Address, bytes: number): void;
  clear(address: Address, bytes: number): void;
}

function bindFunctions(library: LibraryHandle): MemoryFunctions {
  return {
    allocate: library.func('uint64_t allocateMemory(uint64_t bytes, uint64_t serial)'),
    free: library.func('void freeMemory(uint64_t address)'),
    findOverrun: library.func('int findOverrun(uint64_t address, uint64_t bytes, uint64_t serial)'),
    write: library.func('void writeMemory(uint64_t to, const void *from, uint64_t bytes)'),
    read: library.func('void readMemory(void *to, uint64_t from, uint64_t bytes)'),
    copy: library.func('void copyMemory(uint64_t to, uint64_t from, uint64_t bytes)'),
    clear: library.func('void clearMemory(uint64_t address, uint64_t bytes)'),
  } satisfies MemoryFunctions;
}
