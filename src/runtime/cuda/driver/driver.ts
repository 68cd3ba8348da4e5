/**
 * CUDA's driver API. Where cuda.h maps a function to a later version (cuMemAlloc to cuMemAlloc_v2), the plain name is
 * another function with 32-bit sizes.
 */
import { MistletoeError } from '../../../core/errors.js';
import { DeviceLostError, OutOfMemoryError } from '../../program.js';
import type { Native, NativeLibrary, NativeValue } from '../../native-library.js';
import { bindFunctions, type StatusFunction } from './bind-functions.js';

// CUdeviceptr is a 64-bit integer in C and passes as a pointer.
const parameters = {
  cuInit: 'unsigned int flags',
  cuDriverGetVersion: 'void *version',
  cuGetErrorName: 'int status, void *text',
  cuGetErrorString: 'int status, void *text',
  cuDeviceGetCount: 'void *count',
  cuDeviceGet: 'void *device, int ordinal',
  cuDeviceGetName: 'void *name, int bytes, int device',
  cuDeviceTotalMem_v2: 'void *bytes, int device',
  cuDeviceGetAttribute: 'void *value, int attribute, int device',
  cuDevicePrimaryCtxRetain: 'void *context, int device',
  cuDevicePrimaryCtxRelease_v2: 'int device',
  cuCtxSetCurrent: 'void *context',
  cuMemGetInfo_v2: 'void *free, void *total',
  cuMemAlloc_v2: 'void *address, size_t bytes',
  cuMemFree_v2: 'void *address',
  cuMemAllocHost_v2: 'void *address, size_t bytes',
  cuMemFreeHost: 'void *address',
  cuMemcpyHtoDAsync_v2: 'void *to, void *from, size_t bytes, void *stream',
  cuMemcpyDtoHAsync_v2: 'void *to, void *from, size_t bytes, void *stream',
  cuMemcpyDtoDAsync_v2: 'void *to, void *from, size_t bytes, void *stream',
  cuMemsetD8Async: 'void *at, unsigned char value, size_t bytes, void *stream',
  cuStreamCreate: 'void *stream, unsigned int flags',
  cuStreamSynchronize: 'void *stream',
  cuStreamDestroy_v2: 'void *stream',
  cuEventCreate: 'void *event, unsigned int flags',
  cuEventRecord: 'void *event, void *stream',
  cuEventQuery: 'void *event',
  cuEventSynchronize: 'void *event',
  cuEventDestroy_v2: 'void *event',
  cuModuleLoadData: 'void *module, void *image',
  cuModuleGetFunction: 'void *function, void *module, const char *name',
  cuModuleUnload: 'void *module',
  cuFuncSetAttribute: 'void *function, int attribute, int value',
  cuStreamBeginCapture_v2: 'void *stream, int mode',
  cuStreamEndCapture: 'void *stream, void *graph',
  cuGraphInstantiateWithFlags: 'void *executable, void *graph, unsigned long long flags',
  cuGraphLaunch: 'void *executable, void *stream',
  cuGraphExecDestroy: 'void *executable',
  cuGraphDestroy: 'void *graph',
  cuLaunchKernel:
    'void *function, unsigned int gridX, unsigned int gridY, unsigned int gridZ, unsigned int blockX, ' +
    'unsigned int blockY, unsigned int blockZ, unsigned int sharedBytes, void *stream, void *arguments, void *extra',
  cuLaunchKernelEx: 'void *configuration, void *function, void *arguments, void *extra',
} as const;

export type DriverCall = keyof typeof parameters;

/** Uncorrectable memory errors or a lost device: no call works afterwards. */
const lostCodes: ReadonlySet<number> = new Set([214, 999]);

export const statusCodes = { outOfMemory: 2, noDevice: 100, notFound: 500, notReady: 600 } as const;
// Kernel failures: the process cannot use the device any more.
const [firstKernelFailure, lastKernelFailure] = [700, 720];

const memoryHint =
  'Lower the batch or the context, or choose a smaller type (bfloat16 or float16); other programs on the GPU take memory as well.';

const kernelHint =
  'An earlier kernel failed, and the GPU cannot be used by this process any more. With CUDA_LAUNCH_BLOCKING=1 the call that failed is the one named.';
const lostHint =
  'The GPU cannot be used by this process any more. Look with nvidia-smi whether it is there, and start again.';

export class Driver {
  readonly major: number;
  /** 1000 times the major version and 10 times the minor. */
  readonly version: number;
  readonly #functions: Readonly<Record<DriverCall, StatusFunction>>;
  readonly #readString: Native['readString'];
  readonly #pointer = new BigUint64Array(2);
  readonly #integer = new Int32Array(1);
  #context = 0n;

  constructor(native: Pick<Native, 'readString'>, library: NativeLibrary) {
    this.#functions = bindFunctions(library, parameters);
    this.#readString = native.readString;
    this.call('cuInit', 0);
    this.version = this.integer('cuDriverGetVersion');
    this.major = Math.floor(this.version / 1000);
  }

  call(name: DriverCall, ...values: NativeValue[]): void {
    const status = this.#functions[name](...values);
    if (status !== 0) throw this.failure(name, status);
  }

  /** For calls where some failures are expected. */
  status(name: DriverCall, ...values: NativeValue[]): number {
    return this.#functions[name](...values);
  }

  /** For calls that write a pointer or a size through the first parameter. */
  pointer(name: DriverCall, ...values: NativeValue[]): bigint {
    this.call(name, this.#pointer, ...values);
    return this.#pointer[0]!;
  }

  /** For calls that write an int through the first parameter. */
  integer(name: DriverCall, ...values: NativeValue[]): number {
    this.call(name, this.#integer, ...values);
    return this.#integer[0]!;
  }

  memory(): { readonly freeBytes: number; readonly totalBytes: number } {
    const [free, total] = [this.#pointer.subarray(0, 1), this.#pointer.subarray(1)];
    this.call('cuMemGetInfo_v2', free, total);
    return { freeBytes: Number(free[0]!), totalBytes: Number(total[0]!) };
  }

  /** A context is current per thread. */
  makeCurrent(context: bigint): void {
    if (this.#context === context) return;
    this.call('cuCtxSetCurrent', context);
    this.#context = context;
  }

  allocate(bytes: number): bigint {
    const status = this.status('cuMemAlloc_v2', this.#pointer, bytes);
    if (status === statusCodes.outOfMemory) {
      const { freeBytes, totalBytes } = this.memory();
      throw new OutOfMemoryError(
        `The GPU has no room for ${bytes} bytes: ${freeBytes} of its ${totalBytes} bytes are free.`,
        memoryHint,
      );
    }
    if (status !== 0) throw this.failure('cuMemAlloc_v2', status, `${bytes} bytes`);
    return this.#pointer[0]!;
  }

  failure(name: DriverCall, status: number, about = ''): MistletoeError {
    const subject = about === '' ? name : `${name} (${about})`;
    const message = `${subject} failed: ${this.#describe(status)}.`;
    if (status === statusCodes.outOfMemory) return new OutOfMemoryError(message, memoryHint);
    if (lostCodes.has(status)) return new DeviceLostError(message, lostHint);
    if (status < firstKernelFailure || status > lastKernelFailure)
      return new MistletoeError('runtime', message);
    return new DeviceLostError(message, kernelHint);
  }

  #describe(status: number): string {
    const read = (name: 'cuGetErrorName' | 'cuGetErrorString'): string =>
      this.status(name, status, this.#pointer) === 0 ? this.#readString(this.#pointer[0]!) : '';
    const name = read('cuGetErrorName');
    return name === '' ? `status ${status}` : `${name} (${read('cuGetErrorString')})`;
  }
}
