/** Kernels of the emulated device: from CUDA C++ to functions of a library, and what a launch is held to. */
import koffi from 'koffi';
import { MistletoeError } from '../../src/core/errors.js';
import type { Kernel, KernelModule, Launch } from '../../src/runtime/cuda/driver/device.js';
import type { CompiledKernel, KernelTarget } from './emulated-compiler.js';
import { buildKernels } from './emulated-compiler.js';
import type { Allocation, EmulatedMemory } from './emulated-memory.js';
import type { KernelSource } from './emulated-source.js';
import { splitKernels } from './emulated-source.js';

/** What went wrong, or null. */
type LaunchFunction = (
  x: number,
  y: number,
  z: number,
  threads: number,
  sharedBytes: number,
  packed: Uint8Array,
) => string | null;

interface LoadedKernel {
  /** A letter for each parameter: p for a pointer, i for an int. */
  readonly parameters: string;
  readonly run: LaunchFunction;
}

const maxSharedBytes = 48 * 1024;
const loaded = new Map<string, LoadedKernel>(); // by key, for all devices of the process

export interface EmulatedKernels {
  readonly compile: (source: string) => KernelModule;
  readonly compileTogether: <T>(work: () => Promise<T>) => Promise<T>;
  readonly launch: (launch: Launch) => void;
}

interface NamedKernel {
  readonly handle: Kernel;
  readonly source: KernelSource;
}

export function createEmulatedKernels(target: KernelTarget, memory: EmulatedMemory): EmulatedKernels {
  const known = new Map<Kernel, LoadedKernel>();
  let collected: NamedKernel[] | undefined;
  const build = (kernels: readonly NamedKernel[]): void => {
    const compiled = buildKernels(
      kernels.map(({ source }) => source),
      target,
    );
    for (const [index, { handle }] of kernels.entries()) known.set(handle, load(compiled[index]!));
  };
  return {
    compile(source) {
      const kernels = splitKernels(source).map((kernel) => ({
        handle: { name: kernel.name },
        source: kernel,
      }));
      if (collected === undefined) build(kernels);
      else collected.push(...kernels);
      const handles = new Map(kernels.map(({ handle }) => [handle.name, handle]));
      return {
        kernel(name) {
          const handle = handles.get(name);
          if (handle !== undefined) return handle;
          throw failure(`kernel: there is no kernel ${name} in the module, which has: ${listNames(handles)}`);
        },
        unload() {
          for (const handle of handles.values()) known.delete(handle);
        },
      };
    },
    async compileTogether(work) {
      const kernels: NamedKernel[] = (collected = []);
      const result = await work().finally(() => (collected = undefined));
      build(kernels);
      return result;
    },
    launch(launch) {
      // Weights are converted by kernels while programs are compiled.
      if (collected?.some(({ handle }) => handle === launch.kernel) === true) build(collected.splice(0));
      const kernel = known.get(launch.kernel);
      if (kernel === undefined)
        throw failure(`launch: the module of ${launch.kernel.name} is not loaded on this device`);
      run(kernel, launch, memory);
    },
  };
}

const listNames = (handles: ReadonlyMap<string, unknown>): string => [...handles.keys()].join(', ') || 'none';

function load({ key, library: path }: CompiledKernel): LoadedKernel {
  const known = loaded.get(key);
  if (known !== undefined) return known;
  const library = koffi.load(path);
  const describe = library.func(`const char *parameters_${key}()`) as () => string;
  const run: LaunchFunction = library.func(
    `const char *launch_${key}(uint32_t x, uint32_t y, uint32_t z, uint32_t threads, uint32_t shared, const void *packed)`,
  );
  const kernel = { parameters: describe(), run };
  loaded.set(key, kernel);
  return kernel;
}

function run(kernel: LoadedKernel, launch: Launch, memory: EmulatedMemory): void {
  const purpose = `launch of ${launch.kernel.name}`;
  const { grid, block, sharedBytes = 0 } = launch;
  checkRange(purpose, 'grid x', grid[0], 1, 2 ** 31 - 1);
  checkRange(purpose, 'grid y', grid[1], 1, 65535);
  checkRange(purpose, 'grid z', grid[2], 1, 65535);
  checkRange(purpose, 'threads of a block', block, 1, 1024);
  checkRange(purpose, 'bytes of shared memory', sharedBytes, 0, maxSharedBytes);
  const { packed, allocations } = packArguments(purpose, kernel, launch.arguments, memory);
  const problem = kernel.run(...grid, block, sharedBytes, packed);
  if (problem !== null) throw failure(`${purpose}: ${problem}`);
  for (const allocation of allocations) memory.checkGuards(purpose, allocation);
}

function checkRange(purpose: string, what: string, value: number, least: number, most: number): void {
  if (!Number.isInteger(value) || value < least || value > most)
    throw failure(`${purpose}: ${what} is ${value}, expected ${least} to ${most}`);
}

/** 8 bytes each. A pointer may be 0, for what a kernel is told not to read. */
function packArguments(
  purpose: string,
  kernel: LoadedKernel,
  values: Launch['arguments'],
  memory: EmulatedMemory,
): { readonly packed: Uint8Array; readonly allocations: ReadonlySet<Allocation> } {
  const { parameters } = kernel;
  if (values.length !== parameters.length)
    throw failure(`${purpose}: ${values.length} arguments, expected ${parameters.length} (${parameters})`);
  const packed = new DataView(new ArrayBuffer(8 * values.length));
  const allocations = new Set<Allocation>();
  for (const [index, value] of values.entries()) {
    const what = `argument ${index}`;
    if ((parameters[index] === 'p') !== (typeof value === 'bigint'))
      throw failure(`${purpose}: ${what} is a ${typeof value}, expected ${parameters} (p bigint, i number)`);
    if (typeof value === 'bigint') {
      if (value !== 0n) allocations.add(memory.find(`${purpose}, ${what}`, value, 1));
      packed.setBigUint64(8 * index, value, true);
    } else {
      checkRange(purpose, what, value, -(2 ** 31), 2 ** 31 - 1);
      packed.setInt32(8 * index, value, true);
    }
  }
  return { packed: new Uint8Array(packed.buffer), allocations };
}

function failure(message: string): MistletoeError {
  return new MistletoeError('runtime', `${message}.`);
}
