/** Suites on an emulated device, which say so and skip where there is no C++ compiler. */
import { afterAll, beforeAll, describe } from 'vitest';
import type { CudaRuntimeOptions } from '../../src/runtime/cuda/cuda-runtime.js';
import { createCudaRuntime } from '../../src/runtime/cuda/cuda-runtime.js';
import type { Address, Launch } from '../../src/runtime/cuda/driver/device.js';
import type { Runtime } from '../../src/runtime/program.js';
import type { LaunchCounts } from './counting-device.js';
import { countLaunches } from './counting-device.js';
import type { EmulatedDevice } from './emulated-device.js';
import { createEmulatedDevice, findCompiler } from './emulated-device.js';

export interface EmulatedBench {
  /** There is none before the suite's tests run. */
  readonly device: EmulatedDevice;
  place(values: ArrayBufferView): Address;
  fetchFloats(from: Address, count: number): Promise<number[]>;
  /** Launches the source's kernel `test`: one block of 64 threads, unless told otherwise. */
  launch(source: string, launch: Partial<Launch> & Pick<Launch, 'arguments'>): void;
}

export function describeEmulated(title: string, suite: (bench: EmulatedBench) => void): void {
  const compiler = findCompiler();
  if (compiler === undefined) console.log(`No C++ compiler on the PATH: skipping ${title}.`);
  describe.skipIf(compiler === undefined)(title, () => {
    let device: EmulatedDevice | undefined;
    beforeAll(() => {
      device = createEmulatedDevice();
    });
    afterAll(() => {
      device?.dispose();
    });
    suite(createBench(() => device!));
  });
}

function createBench(current: () => EmulatedDevice): EmulatedBench {
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

/** A CUDA runtime on an emulated device. There is none before the suite's tests run. */
export interface CudaBench {
  readonly runtime: Runtime;
  /** Launches up to now. */
  readonly counts: Readonly<LaunchCounts>;
}

/**
 * @param prepare compiles programs before the first test; their kernels are compiled together, which is faster than in
 * each test
 */
export function describeCuda(
  title: string,
  options: CudaRuntimeOptions,
  suite: (bench: CudaBench) => void,
  prepare?: (runtime: Runtime) => Promise<unknown>,
): void {
  describeEmulated(title, (bench) => {
    let [runtime, counts]: [Runtime?, LaunchCounts?] = [];
    beforeAll(async () => {
      const counting = countLaunches(bench.device);
      const created = createCudaRuntime(counting.device, options);
      [runtime, counts] = [created, counting.counts];
      if (prepare !== undefined) await bench.device.compileTogether(() => prepare(created));
    });
    afterAll(() => runtime?.dispose());
    suite({
      get runtime() {
        return runtime!;
      },
      get counts() {
        return counts!;
      },
    });
  });
}

export const floats = (count: number, valueAt: (index: number) => number): Float32Array =>
  Float32Array.from({ length: count }, (_, index) => valueAt(index));
