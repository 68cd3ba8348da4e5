/**
 * An NVIDIA GPU through its driver, NVRTC and cuBLASLt. It uses the primary context and a stream of its own. Waiting
 * polls an event between turns of the event loop: a thread that waits in the driver would spin as well and answer
 * later.
 */
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { defaultCacheFolder, kernelsFolder } from '../../../core/files.js';
import { MistletoeError } from '../../../core/errors.js';
import { ignoreLoss } from '../../program.js';
import type { Address, Device, KernelModule, Launch, Product, Recording } from './device.js';
import type { Driver } from './driver.js';
import { bytesOf } from '../kernels/kernel-text.js';
import { type Cuda, describeDevice, loadCuda } from './find-devices.js';
import { compilerOptions, KernelStore, splitKernels } from './kernel-compiler.js';
import { CudaKernel, CudaModule, EarlyLaunch, LaunchArguments } from '../programs/kernel-launch.js';
import { MatrixProducts, workspaceBytes } from '../programs/matrix-products.js';
import { Staging } from './staging.js';

const nonBlocking = 1; // CU_STREAM_NON_BLOCKING
/** Recordings of launches that start early need CUDA 12.3, the launches themselves a GPU of compute capability 9. */
const [earlyLaunchVersion, earlyLaunchCapability] = [12_030, 9];
const relaxedCapture = 2; // CU_STREAM_CAPTURE_MODE_RELAXED: cuBLASLt may load its kernels meanwhile

export class CudaDevice implements Device {
  readonly name: string;
  readonly computeCapability: readonly [major: number, minor: number];
  readonly totalBytes: number;
  readonly #cuda: Cuda;
  readonly #driver: Driver;
  readonly #device: number;
  readonly #context: bigint;
  readonly #stream: bigint;
  readonly #staging: Staging;
  readonly #arguments: LaunchArguments;
  /** Undefined if the GPU or its driver has none. */
  readonly #early: EarlyLaunch | undefined;
  /** The last call was a launch: a copy or a product must end before the next one starts. */
  #isBehindLaunch = false;
  readonly #workspace: Address;
  readonly #products: MatrixProducts;
  readonly #kernels = new KernelStore(join(defaultCacheFolder(), kernelsFolder));
  readonly #scratch = new BigUint64Array(1);
  #disposed = false;

  /** @param ordinal index among the GPUs that the driver sees */
  static open(ordinal = 0): CudaDevice {
    return new CudaDevice(loadCuda(), ordinal);
  }

  private constructor(cuda: Cuda, ordinal: number) {
    const { native, driver } = cuda;
    const { name, totalBytes, computeCapability } = describeDevice(driver, ordinal);
    this.name = name;
    this.totalBytes = totalBytes;
    this.computeCapability = computeCapability;
    this.#cuda = cuda;
    this.#driver = driver;
    this.#device = driver.integer('cuDeviceGet', ordinal);
    this.#context = driver.pointer('cuDevicePrimaryCtxRetain', this.#device);
    try {
      driver.makeCurrent(this.#context);
      this.#stream = driver.pointer('cuStreamCreate', nonBlocking);
      this.#staging = new Staging(driver, native, this.#stream);
      this.#arguments = new LaunchArguments(native);
      const isEarly = driver.version >= earlyLaunchVersion && computeCapability[0] >= earlyLaunchCapability;
      this.#early = isEarly ? new EarlyLaunch(native, this.#stream) : undefined;
      this.#workspace = driver.allocate(workspaceBytes);
      this.#products = new MatrixProducts(native, cuda.products, this.#stream, this.#workspace);
    } catch (cause) {
      // Also frees everything in the context, unless others hold it.
      this.#release();
      throw cause;
    }
  }

  freeBytes(): number {
    this.#enter();
    return this.#driver.memory().freeBytes;
  }

  allocate(bytes: number): Address {
    this.#enter();
    if (!Number.isSafeInteger(bytes) || bytes < 0) {
      throw new MistletoeError('runtime', `${bytes} bytes cannot be allocated; a whole number was expected.`);
    }
    // The driver refuses to allocate nothing.
    return this.#driver.allocate(Math.max(bytes, 1));
  }

  free(address: Address): void {
    this.#enter();
    this.#driver.call('cuMemFree_v2', address);
  }

  upload(to: Address, values: ArrayBufferView): void {
    this.#enter();
    this.#staging.upload(to, asBytes(values));
  }

  async download(from: Address, into: ArrayBufferView): Promise<void> {
    this.#enter();
    if (into.byteLength === 0) return this.synchronize();
    const { event, finish } = this.#staging.download(from, asBytes(into));
    await this.#wait(event);
    finish();
  }

  copy(to: Address, from: Address, bytes: number): void {
    this.#enter();
    if (bytes > 0) this.#driver.call('cuMemcpyDtoDAsync_v2', to, from, bytes, this.#stream);
  }

  clear(at: Address, bytes: number): void {
    this.#enter();
    if (bytes > 0) this.#driver.call('cuMemsetD8Async', at, 0, bytes, this.#stream);
  }

  /** Each kernel on its own: programs, threads, and later processes share what they have in common. */
  compile(source: string): KernelModule {
    this.#enter();
    const { compiler } = this.#cuda;
    const identity = [compiler.version, ...compilerOptions(this.computeCapability)].join(' ');
    const codes = splitKernels(source).map(({ name, own }): [string, Uint8Array] => [
      name,
      this.#kernels.find(identity, own, () => compiler.compile(own, this.computeCapability)),
    ]);
    return new CudaModule(this.#driver, new Map(codes), () => {
      this.#enter();
    });
  }

  launch(launch: Launch): void {
    const isBehindLaunch = this.#isBehindLaunch;
    this.#enter();
    const { kernel, grid, block, sharedBytes = 0 } = launch;
    if (!(kernel instanceof CudaKernel) || !kernel.module.loaded) {
      throw new MistletoeError('runtime', `The kernel ${kernel.name} is not loaded on this GPU.`);
    }
    kernel.allowShared(this.#driver, sharedBytes);
    this.#arguments.set(launch);
    const { pointers } = this.#arguments;
    const early = launch.startsEarly === true && isBehindLaunch ? this.#early : undefined;
    early?.set(launch);
    this.#isBehindLaunch = true;
    const status =
      early === undefined
        ? this.#driver.status(
            'cuLaunchKernel',
            kernel.handle,
            ...grid,
            ...[block, 1, 1, sharedBytes],
            this.#stream,
            pointers,
            null,
          )
        : this.#driver.status('cuLaunchKernelEx', early.configuration, kernel.handle, pointers, null);
    if (status === 0) return;
    const shape = `grid ${grid.join(' x ')}, ${block} threads, ${sharedBytes} bytes shared`;
    throw this.#driver.failure('cuLaunchKernel', status, `${kernel.name}, ${shape}`);
  }

  multiply(product: Product): void {
    this.#enter();
    const { rows, columns, inner, batch, result } = product;
    if (rows === 0 || columns === 0 || batch === 0) return;
    if (inner > 0) {
      this.#products.multiply(product);
      return;
    }
    const size = bytesOf(result.type);
    const { addend } = product;
    for (let index = 0; index < batch * rows; index++) {
      const start = Math.floor(index / rows) * result.batchStride + (index % rows) * result.rowStride;
      const offset = BigInt(start * size);
      if (addend === undefined) this.clear(result.address + offset, columns * size);
      else this.copy(result.address + offset, addend + offset, columns * size);
    }
  }

  record(work: () => void): Recording {
    this.#enter();
    this.#driver.call('cuStreamBeginCapture_v2', this.#stream, relaxedCapture);
    try {
      work();
    } catch (cause) {
      // End the capture, or the stream would stay in this state.
      if (
        this.#driver.status('cuStreamEndCapture', this.#stream, this.#scratch) === 0 &&
        this.#scratch[0] !== 0n
      )
        this.#driver.call('cuGraphDestroy', this.#scratch[0]!);
      throw cause;
    }
    this.#driver.call('cuStreamEndCapture', this.#stream, this.#scratch);
    const graph = this.#scratch[0]!;
    const executable = this.#driver.pointer('cuGraphInstantiateWithFlags', graph, 0);
    this.#driver.call('cuGraphDestroy', graph);
    return new CudaRecording(executable, () => {
      if (this.#disposed) return;
      try {
        this.#driver.call('cuGraphExecDestroy', executable);
      } catch (cause) {
        ignoreLoss(cause);
      }
    });
  }

  replay(recording: Recording): void {
    this.#enter();
    if (!(recording instanceof CudaRecording))
      throw new MistletoeError(
        'runtime',
        'A recording was replayed on another device than the one that made it.',
      );
    this.#driver.call('cuGraphLaunch', recording.executable, this.#stream);
  }

  async synchronize(): Promise<void> {
    this.#enter();
    await this.#wait(this.#staging.record());
  }

  dispose(): void {
    if (this.#disposed) return;
    this.#enter();
    this.#disposed = true;
    try {
      this.#driver.call('cuStreamSynchronize', this.#stream);
      this.#products.dispose();
      this.#staging.dispose();
      this.#driver.call('cuMemFree_v2', this.#workspace);
      this.#driver.call('cuStreamDestroy_v2', this.#stream);
    } catch (cause) {
      ignoreLoss(cause);
    } finally {
      this.#arguments.dispose();
      this.#early?.dispose();
      this.#release();
    }
  }

  async #wait(event: bigint): Promise<void> {
    while (!this.#staging.passed(event)) {
      await setImmediate();
      this.#enter();
    }
  }

  #enter(): void {
    if (this.#disposed) throw new MistletoeError('runtime', `The GPU ${this.name} has been closed.`);
    this.#isBehindLaunch = false;
    this.#driver.makeCurrent(this.#context);
  }

  #release(): void {
    try {
      this.#driver.makeCurrent(0n);
      this.#driver.call('cuDevicePrimaryCtxRelease_v2', this.#device);
    } catch (cause) {
      ignoreLoss(cause);
    }
  }
}

class CudaRecording implements Recording {
  constructor(
    readonly executable: bigint,
    readonly free: () => void,
  ) {}
}

function asBytes({ buffer, byteOffset, byteLength }: ArrayBufferView): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}
