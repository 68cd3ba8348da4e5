/** Finds GPUs without opening them. */
import { MistletoeError, describeCause } from '../../../core/errors.js';
import { Driver } from './driver.js';
import { KernelCompiler } from './kernel-compiler.js';
import { compilerLibrary, driverLibrary, openLibrary, productLibrary } from './libraries.js';
import type { Native, NativeLibrary } from './native-library.js';
import { loadNative } from './native-library.js';

export interface FoundDevice {
  readonly ordinal: number;
  readonly name: string;
  readonly totalBytes: number;
  readonly computeCapability: readonly [major: number, minor: number];
}

export type DeviceSearch =
  | { readonly devices: readonly FoundDevice[]; readonly reason?: undefined }
  | { readonly devices: readonly []; readonly reason: string; readonly hint: string | undefined };

export interface Cuda {
  readonly native: Native;
  readonly driver: Driver;
  readonly compiler: KernelCompiler;
  readonly products: NativeLibrary;
}

let loaded: Cuda | undefined;

/** Per thread, because the current context is per thread. */
export function loadCuda(): Cuda {
  if (loaded !== undefined) return loaded;
  const native = loadNative();
  const driver = new Driver(native, openLibrary(native, driverLibrary));
  const compiler = new KernelCompiler(native, openLibrary(native, compilerLibrary(driver.major)));
  loaded = { native, driver, compiler, products: openLibrary(native, productLibrary(driver.major)) };
  return loaded;
}

export function findDevices(): DeviceSearch {
  try {
    const { driver } = loadCuda();
    const count = driver.integer('cuDeviceGetCount');
    if (count === 0) return { devices: [], reason: 'The driver sees no GPU.', hint: visibleHint };
    return { devices: Array.from({ length: count }, (_, ordinal) => describeDevice(driver, ordinal)) };
  } catch (cause) {
    const hint = cause instanceof MistletoeError ? cause.hint : undefined;
    return { devices: [], reason: describeCause(cause), hint };
  }
}

const visibleHint = 'CUDA_VISIBLE_DEVICES hides those that it does not name.';
const attributes = { capabilityMajor: 75, capabilityMinor: 76 };
const nameBytes = 256;

export function describeDevice(driver: Driver, ordinal: number): FoundDevice {
  const count = driver.integer('cuDeviceGetCount');
  if (!Number.isInteger(ordinal) || ordinal < 0 || ordinal >= count) {
    throw new MistletoeError(
      'runtime',
      `There is no GPU ${ordinal}; the driver sees ${count}, counted from 0.`,
      {
        hint: visibleHint,
      },
    );
  }
  const device = driver.integer('cuDeviceGet', ordinal);
  const name = new Uint8Array(nameBytes);
  driver.call('cuDeviceGetName', name, nameBytes, device);
  const attribute = (code: number): number => driver.integer('cuDeviceGetAttribute', code, device);
  return {
    ordinal,
    name: Buffer.from(name).toString('utf8').replace(/\0.*$/s, ''),
    totalBytes: Number(driver.pointer('cuDeviceTotalMem_v2', device)),
    computeCapability: [attribute(attributes.capabilityMajor), attribute(attributes.capabilityMinor)],
  };
}
