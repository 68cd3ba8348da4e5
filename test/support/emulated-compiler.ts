/**
 * C++ to shared libraries, for the emulated device. Libraries are kept in the folder for temporary files under a hash of
 * all that went into them, so that suites of one run, which emulate many of the same kernels, compile each only once.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, lstatSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'; // prettier-ignore
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MistletoeError } from '../../src/core/errors.js';

const sources = import.meta.dirname;
const libraryFiles = ['emulated-library.cpp', 'emulated-threads.cpp'];
const headerFiles = ['emulated-cuda.h', 'emulated-halves.h', 'emulated-math.h', 'emulated-threads.h'];
// Names that are not exported stay within their library: many kernels of one process call their helpers alike. A product
// and a sum stay two operations, since the compiler would fuse them on some processors and not on others.
const flags = ['-std=c++20', '-shared', '-fPIC', '-pthread', '-fvisibility=hidden', '-ffp-contract=off'];

interface Compiler {
  readonly path: string;
  readonly version: string;
}

let known: { readonly compiler: Compiler | undefined } | undefined;

/** The name of a C++ compiler on the PATH; undefined where there is none, or no fibers to run threads as. */
export function findCompiler(): string | undefined {
  known ??= { compiler: process.platform === 'win32' ? undefined : lookForCompiler() };
  return known.compiler?.path;
}

function lookForCompiler(): Compiler | undefined {
  for (const path of ['c++', 'g++', 'clang++']) {
    const { status, stdout } = spawnSync(path, ['--version'], { encoding: 'utf8' });
    if (status === 0) return { path, version: stdout };
  }
  return undefined;
}

/** The path of the library with the device's memory, products and threads. */
export function buildDeviceLibrary(): string {
  return build('device', '', ['-O2', ...libraryFiles.map((file) => join(sources, file))]);
}

/** The path of a library of kernels, from source that the emulation's header makes C++ of. */
export function buildKernelLibrary(source: string, deviceLibrary: string): string {
  const headers = ['-I', sources, '-I', provideCudaHeaders(), '-include', join(sources, 'emulated-cuda.h')];
  return build('kernels', source, ['-O1', ...headers, '-x', 'c++', '-', '-x', 'none', deviceLibrary]);
}

function build(kind: string, source: string, options: readonly string[]): string {
  if (findCompiler() === undefined)
    throw new MistletoeError('runtime', 'There is no C++ compiler (c++, g++ or clang++) on the PATH.', {
      hint: 'Install one, or skip what needs the emulated device.',
    });
  const { path, version } = known!.compiler!;
  const cache = openCache();
  const library = join(cache, `${kind}-${hashOf(version, source, ...options)}.so`);
  if (existsSync(library)) return library;
  const work = mkdtempSync(join(cache, 'work-'));
  try {
    const output = join(work, 'library.so');
    const result = spawnSync(path, [...flags, ...options, '-o', output], { input: source, encoding: 'utf8' });
    if (result.status !== 0)
      throw new MistletoeError('runtime', `The kernels do not compile:\n${result.stderr}`, {
        hint: 'Line numbers are those of the source given.',
      });
    renameSync(output, library); // at once, since other workers may look for it meanwhile
    return library;
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

function hashOf(...parts: readonly string[]): string {
  const files = [...libraryFiles, ...headerFiles].map((file) => readFileSync(join(sources, file), 'utf8'));
  return createHash('sha256')
    .update(JSON.stringify([flags, files, parts]))
    .digest('hex')
    .slice(0, 32);
}

/** What is loaded from there runs in this process, so nobody else may write to it. */
function openCache(): string {
  const cache = join(tmpdir(), 'mistletoe-emulated-device');
  mkdirSync(cache, { recursive: true, mode: 0o700 });
  const { uid, mode } = lstatSync(cache);
  if (uid !== process.getuid?.() || (mode & 0o022) !== 0)
    throw new MistletoeError('runtime', `Others can write to ${cache}, where compiled kernels are kept.`, {
      hint: 'Remove the folder, or set TMPDIR to another one.',
    });
  return cache;
}

/** Kernels include half types by the names of CUDA's headers; those that do not have no such types there either. */
function provideCudaHeaders(): string {
  const folder = join(openCache(), 'include');
  if (existsSync(folder)) return folder;
  const work = mkdtempSync(`${folder}-`);
  for (const name of ['cuda_bf16.h', 'cuda_fp16.h'])
    writeFileSync(join(work, name), '#include "emulated-halves.h"\n');
  try {
    renameSync(work, folder);
  } catch (error) {
    rmSync(work, { recursive: true, force: true });
    if (!existsSync(folder)) throw error; // else another worker was first
  }
  return folder;
}
