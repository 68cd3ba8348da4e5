/**
 * ONNX Runtime's C interface, without the copies and the conversions of its package for Node. Functions are found by
 * their place in the table OrtApi, which only ever grows at its end (onnxruntime_c_api.h). Addresses are numbers: those
 * of user space fit into a double.
 */
import {
  loadNative,
  type Native,
  type NativeFunction,
  type NativeLibrary,
  type NativeValue,
} from '../native-library.js';
import { findOnnxRuntimeLibrary } from './load-onnxruntime.js';

/** The oldest version whose table has every function below. */
const apiVersion = 18;

const [address, size] = ['uintptr_t', 'size_t'];

/** [function] Its place in the table and its C parameters; each returns a status that is 0 for success. */
const functions = {
  CreateEnv: [3, ['int', 'const char *', 'void *']],
  CreateSessionFromArray: [8, [address, 'void *', size, address, 'void *']],
  Run: [9, [address, address, address, address, size, address, size, address]],
  CreateSessionOptions: [10, ['void *']],
  SetSessionLogSeverityLevel: [22, [address, 'int']],
  SetSessionGraphOptimizationLevel: [23, [address, 'int']],
  SetIntraOpNumThreads: [24, [address, 'int']],
  SetInterOpNumThreads: [25, [address, 'int']],
  CreateTensorWithDataAsOrtValue: [49, [address, address, size, address, size, 'int', address]],
  CreateCpuMemoryInfo: [69, ['int', 'int', 'void *']],
  AddSessionConfigEntry: [130, [address, 'const char *', 'const char *']],
  AddExternalInitializersFromFilesInMemory: [279, [address, 'void *', 'void *', 'void *', size]],
} as const;

/** These return nothing. */
const releases = { status: 93, session: 95, value: 96, sessionOptions: 100 } as const;
const messagePlace = 2;

export type ApiFunction = keyof typeof functions;

export type StatusCall = (...values: NativeValue[]) => void;

type Calls = Readonly<Record<ApiFunction, StatusCall>>;
type Releases = Readonly<Record<keyof typeof releases, (address: number | bigint) => void>>;

export interface NativeApi {
  readonly native: Native;
  /** Held, because koffi unloads a library that nobody holds. */
  readonly library: NativeLibrary;
  /** Each throws what ONNX Runtime reports. */
  readonly call: Calls;
  readonly release: Releases;
  readonly environment: number;
  /** Describes host memory. */
  readonly memory: number;
}

/** For calls that write an address through a parameter. */
export function takeAddress(write: (to: BigUint64Array) => void): number {
  const place = new BigUint64Array(1);
  write(place);
  return Number(place[0]!);
}

let found: { readonly api: NativeApi | undefined } | undefined;

/** Undefined where koffi or the library cannot be loaded: programs then run through onnxruntime-node. */
export function findNativeApi(): NativeApi | undefined {
  found ??= { api: tryLoading() };
  return found.api;
}

function tryLoading(): NativeApi | undefined {
  // Elsewhere paths are wide characters, or nobody has tried.
  if (process.platform !== 'linux') return undefined;
  try {
    const path = findOnnxRuntimeLibrary();
    return path === undefined ? undefined : loadApi(loadNative(), path);
  } catch {
    // The package reports what is wrong with the library itself, if anything is.
    return undefined;
  }
}

function loadApi(native: Native, path: string): NativeApi | undefined {
  const library = native.open(path);
  const base = library.bind('uintptr_t OrtGetApiBase()')() as number | bigint;
  const [getApi] = new BigUint64Array(native.view(BigInt(base), 8));
  const table = native.bindAt(getApi!, address, ['uint32_t'])(apiVersion) as number | bigint;
  if (Number(table) === 0) return undefined;
  const last = Math.max(...Object.values(functions).map(([place]) => place));
  const places = new BigUint64Array(native.view(BigInt(table), 8 * (last + 1)));
  const bind = (place: number, result: string, parameters: readonly string[]): NativeFunction =>
    native.bindAt(places[place]!, result, parameters);

  const message = bind(messagePlace, 'const char *', [address]);
  const release = Object.fromEntries(
    Object.entries(releases).map(([name, place]) => [name, bind(place, 'void', [address])]),
  ) as unknown as Releases;
  const call = Object.fromEntries(
    Object.entries(functions).map(([name, [place, parameters]]) => [
      name,
      check(bind(place, address, parameters), (status) => {
        const text = message(status) as string;
        release.status(status);
        return text;
      }),
    ]),
  ) as Calls;
  const fatal = 4;
  const environment = takeAddress((to) => {
    call.CreateEnv(fatal, 'mistletoe', to);
  });
  const [deviceAllocator, defaultMemory] = [0, 0];
  const memory = takeAddress((to) => {
    call.CreateCpuMemoryInfo(deviceAllocator, defaultMemory, to);
  });
  return { native, library, call, release, environment, memory };
}

function check(run: NativeFunction, describe: (status: number | bigint) => string): StatusCall {
  return (...values) => {
    const status = run(...values) as number | bigint;
    if (status !== 0) throw new Error(describe(status));
  };
}
