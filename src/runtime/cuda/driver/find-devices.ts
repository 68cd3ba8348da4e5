/** Finds GPUs without opening them. */
import { existsSync, readdirSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { describeCause, MistletoeError } from '../../../core/errors.js';
import { Driver } from './driver.js';
import { KernelCompiler } from './kernel-compiler.js';
import { type Native, type NativeLibrary, loadNative } from '../../native-library.js';

/**
 * Finds CUDA's libraries. The driver installs its own; the compiler and cuBLASLt come with the toolkit, distribution
 * packages or Python wheels.
 */
export interface LibraryDescription {
  readonly purpose: string;
  /** The preferred one first. */
  readonly names: readonly string[];
  readonly hint: string;
}

export const driverLibrary: LibraryDescription = {
  purpose: "NVIDIA's driver",
  names: ['libcuda.so.1'],
  hint: 'Install an NVIDIA driver for CUDA 12.0 or later; in a container, start it with the GPU passed through.',
};

/** A library newer than the driver would load and then fail. */
function describeLibrary(
  purpose: string,
  file: string,
  packageName: string,
  driverMajor: number,
): LibraryDescription {
  const versions = [13, 12].filter((major) => major <= driverMajor);
  const wheel = `nvidia-${packageName}${driverMajor < 13 ? '-cu12' : ''}`;
  return {
    purpose,
    names: versions.map((major) => `${file}.so.${major}`),
    hint: `Install the CUDA toolkit or "pip install ${wheel}", or add its folder to LD_LIBRARY_PATH.`,
  };
}

export const compilerLibrary = (driverMajor: number): LibraryDescription =>
  describeLibrary("CUDA's compiler at run time, NVRTC,", 'libnvrtc', 'cuda-nvrtc', driverMajor);

export const productLibrary = (driverMajor: number): LibraryDescription =>
  describeLibrary("CUDA's library of matrix products, cuBLASLt,", 'libcublasLt', 'cublas', driverMajor);

/** Inputs of the search. */
export interface Places {
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly root: string;
  readonly home: string;
}

const systemFolders = [
  'usr/local/cuda*/lib64',
  'usr/local/cuda*/targets/*/lib',
  'usr/lib/x86_64-linux-gnu',
  'usr/lib/aarch64-linux-gnu',
  'usr/lib64',
  'usr/lib/wsl/lib',
];
const wheelFolders = ['cuda_nvrtc', 'cublas', 'cu13'].map((name) => `nvidia/${name}/lib`);
const pythonPackages = ['lib/python3*/site-packages', 'lib/python3*/dist-packages'];

/** Existing folders, those named by the user first. */
function libraryFolders({ environment, root, home }: Places): string[] {
  const named = (environment.LD_LIBRARY_PATH ?? '').split(':').filter(Boolean);
  const toolkits = [environment.CUDA_HOME, environment.CUDA_PATH].filter((path) => path !== undefined);
  const environments = [environment.VIRTUAL_ENV, environment.CONDA_PREFIX];
  const pythons = [
    ...environments.filter((path) => path !== undefined),
    join(root, 'usr/local'),
    join(root, 'usr'),
    ...expand(root, 'opt/*'),
    join(home, '.local'),
  ];
  const folders = [
    ...named,
    ...toolkits.flatMap((path) => [join(path, 'lib64'), join(path, 'lib')]),
    ...systemFolders.flatMap((pattern) => expand(root, pattern)),
    ...pythons.flatMap((prefix) =>
      pythonPackages.flatMap((packages) =>
        wheelFolders.flatMap((folder) => expand(prefix, `${packages}/${folder}`)),
      ),
    ),
  ];
  return [...new Set(folders)].filter((folder) => existsSync(folder));
}

/** Expands a pattern with stars, the highest version first. */
function expand(base: string, pattern: string): string[] {
  let paths = [base];
  for (const part of pattern.split('/'))
    paths = paths.flatMap((path) => (part.includes('*') ? matches(path, part) : [join(path, part)]));
  return paths.filter((path) => existsSync(path));
}

function matches(folder: string, pattern: string): string[] {
  if (!existsSync(folder)) return [];
  const escaped = pattern.replace(/[.+?^${}()|[\]\\]/g, '\\$&').replaceAll('*', '.*');
  const expression = new RegExp(`^${escaped}$`);
  return readdirSync(folder)
    .filter((name) => expression.test(name))
    .sort((a, b) => b.localeCompare(a, 'en', { numeric: true }))
    .map((name) => join(folder, name));
}

/** Each name as the system's loader finds it, then with its known folders. */
export function libraryCandidates(names: readonly string[], places: Places): string[] {
  const folders = libraryFolders(places);
  return names.flatMap((name) => [
    name,
    ...folders.map((folder) => join(folder, name)).filter((path) => existsSync(path)),
  ]);
}

export function openLibrary(
  native: Pick<Native, 'open'>,
  { purpose, names, hint }: LibraryDescription,
  places: Places = { environment: process.env, root: '/', home: homedir() },
): NativeLibrary {
  const failures: string[] = [];
  for (const path of libraryCandidates(names, places)) {
    try {
      return native.open(path);
    } catch (cause) {
      if (path.includes('/')) failures.push(`${path} (${describeCause(cause)})`);
    }
  }
  const wanted = names.length === 0 ? 'a version that the driver can run' : names.join(' or ');
  const found =
    failures.length > 0
      ? `found but not loaded: ${failures.join(', ')}`
      : `looked for by the system's loader, in LD_LIBRARY_PATH, in ${systemFolders.map((folder) => `/${folder}`).join(', ')} and in Python's nvidia packages`;
  throw new MistletoeError('runtime', `${purpose} is missing: ${wanted}, ${found}.`, { hint });
}

export interface FoundDevice {
  readonly ordinal: number;
  readonly name: string;
  readonly totalBytes: number;
  readonly computeCapability: readonly [major: number, minor: number];
}

export interface DeviceSearch {
  readonly devices: readonly FoundDevice[];
  /** Why there are none. */
  readonly reason?: string;
  readonly hint?: string | undefined;
}

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
      { hint: visibleHint },
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
