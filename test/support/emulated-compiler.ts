/** C++ to shared libraries, for the emulated device. What was compiled once is found again by all that went into it. */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { MistletoeError } from '../../src/core/errors.js';
import type { LibraryCache } from './emulated-cache.js';
import { openLibraryCache } from './emulated-cache.js';
import type { KernelSource } from './emulated-source.js';

const sources = import.meta.dirname;
const libraryFiles = ['emulated-library.cpp', 'emulated-threads.cpp', 'emulated-instructions.cpp'];
const cacheName = 'mistletoe-emulated-device';
const maxCacheBytes = 256 * 2 ** 20;
// C++17 is what kernels are compiled as on a GPU. Names that are not exported stay within their library: many kernels of
// one process have helpers of the same names. A product and a sum stay two operations, since the compiler would fuse them
// on some processors and not on others.
const flags = ['-std=c++17', '-shared', '-fPIC', '-pthread', '-fvisibility=hidden', '-ffp-contract=off'];
// A kernel runs for milliseconds: -Og takes the least time in all. On Linux a library may leave what it calls to others
// that are loaded already: kernels link faster without their own.
const kernelFlags = [
  ...['-Og', '-fno-exceptions', '-fno-rtti'],
  ...(process.platform === 'linux' ? ['-nostdlib', '-fno-use-linker-plugin'] : []),
];

interface Tools {
  readonly compiler: string;
  readonly cache: LibraryCache;
  /** A hash of the compiler, and of all files that libraries are made from. */
  readonly identity: string;
}

let compiler: { readonly path: string; readonly version: string } | undefined;
let wasSought = false;
let tools: Tools | undefined;

/** The name of a C++ compiler on the PATH; undefined where there is none, or no fibers to run threads as. */
export function findCompiler(): string | undefined {
  if (!wasSought && process.platform !== 'win32')
    for (const path of ['c++', 'g++', 'clang++']) {
      const { status, stdout } = spawnSync(path, ['--version'], { encoding: 'utf8' });
      if (status !== 0) continue;
      compiler = { path, version: stdout };
      break;
    }
  wasSought = true;
  return compiler?.path;
}

function openTools(): Tools {
  if (tools !== undefined) return tools;
  if (findCompiler() === undefined)
    throw new MistletoeError('runtime', 'There is no C++ compiler (c++, g++ or clang++) on the PATH.', {
      hint: 'Install one, or skip what needs the emulated device.',
    });
  const { path, version } = compiler!;
  const files = readdirSync(sources)
    .filter((name) => /^emulated-.*\.(?:h|cpp)$/.test(name))
    .sort();
  const contents = files.map((name) => readFileSync(join(sources, name), 'utf8'));
  const kept = resolve(sources, '../../node_modules/.cache');
  return (tools = {
    compiler: path,
    cache: openLibraryCache([join(kept, cacheName), join(tmpdir(), cacheName)], maxCacheBytes),
    identity: hashOf(version, process.arch, ...contents),
  });
}

/** The path of the library with the device's memory, products and threads. */
export function buildDeviceLibrary(): string {
  const { cache, identity } = openTools();
  const options = [...flags, '-O2', ...libraryFiles.map((file) => join(sources, file))];
  const name = `device-${hashOf(identity, ...options)}`;
  if (cache.find(name) === undefined)
    cache.add([name], (output) => {
      compile('', options, output);
    });
  return cache.find(name)!;
}

export interface KernelTarget {
  readonly deviceLibrary: string;
  readonly computeCapability: readonly [major: number, minor: number];
}

export interface CompiledKernel {
  readonly library: string;
  /** What names of its functions end with. */
  readonly key: string;
}

/** Kernels that were compiled before are reused one by one; all others are compiled together. */
export function buildKernels(
  kernels: readonly KernelSource[],
  { deviceLibrary, computeCapability: [major, minor] }: KernelTarget,
): readonly CompiledKernel[] {
  const { cache, identity } = openTools();
  const options = [
    ...[...flags, ...kernelFlags, `-D__CUDA_ARCH__=${100 * major + 10 * minor}`],
    ...['-I', join(sources, 'emulated-include'), '-include', join(sources, 'emulated-cuda.h')],
    ...['-x', 'c++', '-', '-x', 'none', deviceLibrary],
  ];
  const keyed = kernels.map((kernel): KeyedKernel => {
    const key = hashOf(identity, ...options, kernel.helpers, kernel.definition);
    return { ...kernel, key, file: `kernel-${key}` };
  });
  const missing = keyed.filter(({ file }) => cache.find(file) === undefined);
  for (const unit of groupByHelpers(missing))
    cache.add(
      unit.map(({ file }) => file),
      (output) => {
        compile(writeUnit(unit), options, output);
      },
    );
  return keyed.map(({ key, file }) => ({ key, library: cache.find(file)! }));
}

interface KeyedKernel extends KernelSource {
  readonly key: string;
  readonly file: string;
}

/** Each kernel once. */
function groupByHelpers(kernels: readonly KeyedKernel[]): readonly (readonly KeyedKernel[])[] {
  const groups = new Map<string, Map<string, KeyedKernel>>();
  for (const kernel of kernels) {
    const group = groups.get(kernel.helpers) ?? new Map<string, KeyedKernel>();
    groups.set(kernel.helpers, group.set(kernel.key, kernel));
  }
  return [...groups.values()].map((group) => [...group.values()]);
}

function writeUnit(kernels: readonly KeyedKernel[]): string {
  const definitions = kernels.map(
    ({ key, line, definition }) =>
      `#define kernel kernel_${key}\n#line ${line} "kernels.cu"\n${definition}\n#undef kernel\nEMULATED_KERNEL(${key})`,
  );
  return [`#line 1 "kernels.cu"\n${kernels[0]!.helpers}`, ...definitions, ''].join('\n');
}

function compile(source: string, options: readonly string[], output: string): void {
  const { compiler: path } = openTools();
  const result = spawnSync(path, [...options, '-o', output], { input: source, encoding: 'utf8' });
  if (result.status !== 0)
    throw new MistletoeError('runtime', `The kernels do not compile:\n${result.stderr}`, {
      hint: 'Line numbers are those of the source given.',
    });
}

function hashOf(...parts: readonly string[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 32);
}
