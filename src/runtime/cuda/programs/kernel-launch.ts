/**
 * Kernels by name, and launch arguments. The driver copies arguments before it returns, so one block serves all
 * launches: slots of 8 bytes, then pointers to them.
 */
import { MistletoeError } from '../../../core/errors.js';
import type { Address, Kernel, KernelModule, Launch } from '../driver/device.js';
import { type Driver, statusCodes } from '../driver/driver.js';
import type { Native } from '../../native-library.js';

const slotBytes = 8;
const slotCount = 256;
/** More needs an attribute. */
const sharedBytesAtOnce = 48 << 10;
const maximalSharedBytes = 8; // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES

type HostMemory = Pick<Native, 'allocate' | 'free' | 'view'>;

export class LaunchArguments {
  readonly pointers: Address;
  readonly #block: Address;
  readonly #addresses: BigUint64Array;
  readonly #integers: Int32Array;

  constructor(private readonly native: HostMemory) {
    this.#block = native.allocate(2 * slotCount * slotBytes);
    this.pointers = this.#block + BigInt(slotCount * slotBytes);
    const memory = native.view(this.#block, 2 * slotCount * slotBytes);
    this.#addresses = new BigUint64Array(memory, 0, slotCount);
    this.#integers = new Int32Array(memory, 0, slotCount * (slotBytes / 4));
    const pointers = new BigUint64Array(memory, slotCount * slotBytes, slotCount);
    for (let slot = 0; slot < slotCount; slot++) pointers[slot] = this.#block + BigInt(slot * slotBytes);
  }

  set({ kernel, arguments: values }: Pick<Launch, 'kernel' | 'arguments'>): void {
    if (values.length > slotCount) {
      throw new MistletoeError(
        'runtime',
        `The kernel ${kernel.name} is given ${values.length} arguments; at most ${slotCount} are possible.`,
      );
    }
    values.forEach((value, slot) => {
      if (typeof value === 'bigint') {
        this.#addresses[slot] = value;
        return;
      }
      if ((value | 0) !== value) {
        throw new MistletoeError(
          'runtime',
          `Argument ${slot} of the kernel ${kernel.name} is ${value}; an integer of 32 bits was expected.`,
        );
      }
      this.#integers[slot * (slotBytes / 4)] = value;
    });
  }

  dispose(): void {
    this.native.free(this.#block);
  }
}

const programmaticSerialization = 6; // CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
/** CUlaunchConfig: grid, block, and shared bytes (7 x 4), stream (at 32), attributes (at 40), their number (at 48). */
const configurationBytes = 56;
/** CUlaunchAttribute: its kind, and its value at 8. */
const attributeBytes = 72;

/** Launches that start while the one before still runs (programmatic dependent launch). */
export class EarlyLaunch {
  readonly configuration: Address;
  readonly #sizes: Uint32Array;

  constructor(
    private readonly native: HostMemory,
    stream: Address,
  ) {
    const bytes = configurationBytes + attributeBytes;
    this.configuration = native.allocate(bytes);
    const view = new DataView(native.view(this.configuration, bytes));
    for (let at = 0; at < bytes; at += 4) view.setUint32(at, 0, true);
    view.setBigUint64(32, stream, true);
    view.setBigUint64(40, this.configuration + BigInt(configurationBytes), true);
    view.setUint32(48, 1, true);
    view.setUint32(configurationBytes, programmaticSerialization, true);
    view.setUint32(configurationBytes + 8, 1, true);
    this.#sizes = new Uint32Array(view.buffer, 0, 7);
  }

  set({ grid, block, sharedBytes = 0 }: Pick<Launch, 'grid' | 'block' | 'sharedBytes'>): void {
    this.#sizes.set([...grid, block, 1, 1, sharedBytes]);
  }

  dispose(): void {
    this.native.free(this.configuration);
  }
}

export class CudaKernel implements Kernel {
  #sharedBytes = sharedBytesAtOnce;

  constructor(
    readonly name: string,
    readonly module: CudaModule,
    readonly handle: bigint,
  ) {}

  allowShared(driver: Driver, bytes: number): void {
    if (bytes <= this.#sharedBytes) return;
    const status = driver.status('cuFuncSetAttribute', this.handle, maximalSharedBytes, bytes);
    if (status !== 0) {
      throw driver.failure('cuFuncSetAttribute', status, `${bytes} bytes of shared memory for ${this.name}`);
    }
    this.#sharedBytes = bytes;
  }
}

export class CudaModule implements KernelModule {
  /** [kernel] */
  readonly #handles: ReadonlyMap<string, bigint>;
  readonly #kernels = new Map<string, CudaKernel>();
  #loaded = true;

  /**
   * @param codes [kernel] each compiled on its own
   * @param enter makes the context current, or throws if the device is closed
   */
  constructor(
    private readonly driver: Driver,
    codes: ReadonlyMap<string, Uint8Array>,
    private readonly enter: () => void,
  ) {
    this.#handles = new Map(
      [...codes].map(([name, code]) => [name, driver.pointer('cuModuleLoadData', code)]),
    );
  }

  get loaded(): boolean {
    return this.#loaded;
  }

  kernel(name: string): CudaKernel {
    this.enter();
    const known = this.#kernels.get(name);
    if (known !== undefined) return known;
    const found = new BigUint64Array(1);
    const handle = this.#handles.get(name);
    const status =
      handle === undefined
        ? statusCodes.notFound
        : this.driver.status('cuModuleGetFunction', found, handle, name);
    if (status === statusCodes.notFound) {
      throw new MistletoeError('runtime', `The compiled source has no kernel ${name}.`, {
        hint: 'Kernels are declared as extern "C" __global__ void.',
      });
    }
    if (status !== 0) throw this.driver.failure('cuModuleGetFunction', status, name);
    const kernel = new CudaKernel(name, this, found[0]!);
    this.#kernels.set(name, kernel);
    return kernel;
  }

  unload(): void {
    if (!this.#loaded) return;
    this.enter();
    this.#loaded = false;
    for (const handle of this.#handles.values()) this.driver.call('cuModuleUnload', handle);
  }
}
