/**
 * Native code through koffi, an optional dependency. Values are numbers, addresses as bigints, and typed
 * arrays that C reads and writes during a call. Memory that C keeps must come from `allocate`: a JavaScript array may
 * move.
 */
import { createRequire } from 'node:module';
import { MistletoeError, describeCause } from '../core/errors.js';

export type NativeValue = number | bigint | string | null | ArrayBufferView | readonly string[];

export type NativeFunction = (...values: NativeValue[]) => unknown;

export interface NativeLibrary {
  readonly path: string;
  bind(prototype: string): NativeFunction;
}

export interface Native {
  open(path: string): NativeLibrary;
  /** Memory that never moves. */
  allocate(bytes: number): bigint;
  free(address: bigint): void;
  /** Shared, not copied. */
  view(address: bigint, bytes: number): ArrayBuffer;
  /** Empty at address 0. */
  readString(address: bigint): string;
  /** The memory of a buffer stays where it is as long as JavaScript holds the buffer. */
  addressOf(buffer: ArrayBufferLike): bigint;
  /** The function at an address, by its C types. */
  bindAt(address: bigint, result: string, parameters: readonly string[]): NativeFunction;
}

// Compilers recurse deeply, and koffi's stack is small by default.
const stackBytes = 16 << 20;

export function loadNative(): Native {
  const koffi = requireKoffi();
  try {
    koffi.config({ ...koffi.config(), sync_stack_size: stackBytes });
  } catch {
    // Another library was loaded through koffi before; its stack size stays.
  }
  return {
    open(path) {
      const library = koffi.load(path);
      return {
        path,
        bind: (prototype) => library.func(prototype) as NativeFunction,
      };
    },
    allocate: (bytes) => koffi.alloc('uint8_t', bytes) as bigint,
    free(address) {
      koffi.free(address);
    },
    view: (address, bytes) => koffi.view(address, bytes),
    readString: (address) => (address === 0n ? '' : koffi.decode.string(address)),
    addressOf: (buffer) => koffi.address(buffer),
    bindAt: (address, result, parameters) =>
      koffi.decode(address, koffi.proto(result, [...parameters])) as NativeFunction,
  };
}

function requireKoffi(): typeof import('koffi') {
  try {
    return createRequire(import.meta.url)('koffi') as typeof import('koffi');
  } catch (cause) {
    throw new MistletoeError(
      'runtime',
      `The package koffi, through which GPUs are called, cannot be loaded: ${firstLine(describeCause(cause))}.`,
      { hint: 'Install it with "npm install koffi@3.3.4", or run on the CPU.', cause },
    );
  }
}

export const firstLine = (text: string): string => text.split('\n', 1)[0]!.replace(/\.$/, '');
