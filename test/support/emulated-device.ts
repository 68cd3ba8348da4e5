/**
 * The device on the processor: kernels compiled as plain C++, for tests of the lowering where there is no GPU. It is slow
 * and strict. What a GPU leaves undefined reads as NaN here, and what it may do silently throws: writes past the end of an
 * allocation, memory that is freed already, threads that wait for each other for ever.
 */
import koffi from 'koffi';
import { MistletoeError } from '../../src/core/errors.js';
import type { Device, Recording } from '../../src/runtime/cuda/driver/device.js';
import { buildDeviceLibrary } from './emulated-compiler.js';
import { createEmulatedKernels } from './emulated-kernels.js';
import { createEmulatedMemory } from './emulated-memory.js';
import { createEmulatedProducts } from './emulated-products.js';

export { findCompiler } from './emulated-compiler.js';

export interface EmulatedDevice extends Device {
  /** All kernels that `work` compiles in one call of the C++ compiler, afterwards: many small programs start faster. */
  readonly compileTogether: <T>(work: () => Promise<T>) => Promise<T>;
}

const totalBytes = 2 ** 31;

/**
 * Needs a C++ compiler: see `findCompiler`.
 * @param computeCapability kernels take the branches of this GPU
 */
export function createEmulatedDevice(
  computeCapability: Device['computeCapability'] = [9, 0],
): EmulatedDevice {
  const deviceLibrary = buildDeviceLibrary();
  const library = koffi.load(deviceLibrary);
  const memory = createEmulatedMemory(library, totalBytes);
  const kernels = createEmulatedKernels({ deviceLibrary, computeCapability }, memory);
  const multiply = createEmulatedProducts(library, memory);
  let disposed = false;
  /** Guards a call against a device that is gone. */
  const alive =
    <A extends unknown[], R>(call: (...values: A) => R) =>
    (...values: A): R => {
      if (disposed) throw new MistletoeError('runtime', 'The device was disposed of before this call.');
      return call(...values);
    };
  const download = alive(memory.read);
  let written: (() => void)[] | undefined;
  /** Done at once, or written down while a recording is made. */
  const ask =
    <A extends unknown[]>(call: (...values: A) => void) =>
    (...values: A): void => {
      if (written === undefined) call(...values);
      else
        written.push(() => {
          call(...values);
        });
    };
  const recordings = new Map<Recording, readonly (() => void)[]>();

  return {
    name: 'emulated',
    computeCapability,
    totalBytes,
    freeBytes: alive(() => totalBytes - memory.usedBytes()),
    allocate: alive(memory.allocate),
    free: alive(memory.free),
    upload: alive(memory.write),
    download: (from, into) => settle(download, from, into),
    copy: ask(alive(memory.copy)),
    clear: ask(alive(memory.clear)),
    compile: alive(kernels.compile),
    compileTogether: kernels.compileTogether,
    launch: ask(alive(kernels.launch)),
    multiply: ask(alive(multiply)),
    record(work) {
      written = [];
      try {
        work();
        const recording: Recording = { free: () => void recordings.delete(recording) };
        recordings.set(recording, written);
        return recording;
      } finally {
        written = undefined;
      }
    },
    replay: alive((recording: Recording) => {
      for (const call of recordings.get(recording)!) call();
    }),
    synchronize: () => settle(alive(() => undefined)),
    dispose() {
      memory.freeAll();
      disposed = true;
    },
  };
}

/** The work is done by the time of the call, since that is what comes next on the stream; its failure is the promise's. */
function settle<A extends unknown[]>(work: (...values: A) => void, ...values: A): Promise<void> {
  return new Promise((resolve) => {
    work(...values);
    resolve();
  });
}
