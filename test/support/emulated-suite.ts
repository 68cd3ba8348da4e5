/** Suites on an emulated device, which say so and skip where there is no C++ compiler. */
import { afterAll, beforeAll, describe } from 'vitest';
import type { Address, Device, Launch } from '../../src/runtime/cuda/device.js';
import { createEmulatedDevice, findCompiler } from './emulated-device.js';

export interface EmulatedBench {
  /** There is none before the suite's tests run. */
  readonly device: Device;
  place(values: ArrayBufferView): Address;
  fetchFloats(from: Address, count: number): Promise<number[]>;
  /** Launches the source's kernel `test`: one block of 64 threads, unless told otherwise. */
  launch(source: string, launch: Partial<Launch> & Pick<Launch, 'arguments'>): void;
}

export function describeEmulated(title: string, suite: (bench: EmulatedBench) => void): void {
  const compiler = findCompiler();
  if (compiler === undefined) console.log(`No C++ compiler on the PATH: skipping ${title}.`);
  describe.skipIf(compiler === undefined)(title, () => {
    let device: Device | undefined;
    beforeAll(() => {
      device = createEmulatedDevice();
    });
    afterAll(() => {
      device?.dispose();
    });
    suite(createBench(() => device!));
  });
}

function createBench(current: () => Device): EmulatedBench {
  return {
    get device() {
      return current();
    },
    place(values) {
      const address = current().allocate(values.byteLength);
      current().upload(address, values);
      return address;
    },
    async fetchFloats(from, count) {
      const values = new Float32Array(count);
      await current().download(from, values);
      return [...values];
    },
    launch(source, options) {
      const kernel = current().compile(source).kernel('test');
      current().launch({ kernel, grid: [1, 1, 1], block: 64, ...options });
    },
  };
}

export const floats = (count: number, valueAt: (index: number) => number): Float32Array =>
  Float32Array.from({ length: count }, (_, index) => valueAt(index));
