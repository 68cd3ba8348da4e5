/**
 * Native code through koffi, an optional dependency for GPUs. Values are numbers, addresses as bigints, and typed
 * arrays that C reads and writes during a call. Memory that C keeps must come from `allocate`: a JavaScript array may
 * move.
 */
import { createRequire } from 'node:module';
import { MistletoeError, describeCause } from '../../../core/errors.js';

export type NativeValue = number | bigint | string | null | ArrayBufferView | readonly string[];

export type StatusFunction = (...values: NativeValue[]) => number;

export interface NativeLibrary {
  readonly path: string;
  bind(prototype: string): (...values: NativeValue[]) => unknown;
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
        bind: (prototype) => library.func(prototype) as (...values: NativeValue[]) => unknown,
      };
    },
    allocate: (bytes) => koffi.alloc('uint8_t', bytes) as bigint,
    free(address) {
      koffi.free(address);
    },
    view: (address, bytes) => koffi.view(address, bytes),
    readString: (address) => (address === 0n ? '' : koffi.decode.string(address)),
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

/** Binds functions by name and C parameters; each returns a status. */
export function bindFunctions<Name extends string>(
  library: NativeLibrary,
  parameters: Readonly<Record<Name, string>>,
): Readonly<Record<Name, StatusFunction>> {
  const bind = ([name, list]: [string, string]): [string, StatusFunction] => {
    try {
      return [name, library.bind(`int ${name}(${list})`) as StatusFunction];
    } catch (cause) {
      throw new MistletoeError(
        'runtime',
        `${library.path} cannot be used: ${firstLine(describeCause(cause))}.`,
        { hint: 'CUDA 12.0 or later is needed: install a newer driver and newer CUDA libraries.', cause },
      );
    }
  };
  return Object.fromEntries(Object.entries<string>(parameters).map(bind)) as Record<Name, StatusFunction>;
}

const firstLine = (text: string): string => text.split('\n', 1)[0]!.replace(/\.$/, '');
