/** NVRTC: CUDA C++ to machine code. Nothing precedes the source, so line numbers match. No fast-math. */
import { createHash } from 'node:crypto';
import type { Stats } from 'node:fs';
import {
  closeSync,
  constants,
  fstatSync,
  futimesSync,
  lstatSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
} from 'node:fs';
import { join } from 'node:path';
import { makeFolderSync, replaceFileSync } from '../../../core/durable-files.js';
import { kernelFileName } from '../../../core/files.js';
import { MistletoeError } from '../../../core/errors.js';
import { takeCompileTurn } from './compile-turns.js';
import type { Native, NativeLibrary, NativeValue } from '../../native-library.js';
import { bindFunctions, type StatusFunction } from './bind-functions.js';

/**
 * Compiled kernels on disk, which saves seconds at the next start. A file's name is a hash of the source and
 * everything that the compiler's output depends on; its first bytes are the sha256 of the rest, so damaged files are
 * compiled again. The hash does not stop forgery, so folders and files that other users own or can write are not
 * used. If the folder cannot be used, kernels are compiled every time.
 */
const format = 'mistletoe kernels 1';
const hashBytes = 32;
/** The most recently used files are kept; a file has 4 to 100 kB. */
const maxFiles = 4096;

export class KernelStore {
  constructor(
    private readonly folder: string,
    private readonly most = maxFiles,
  ) {}

  /**
   * Finds compiled code or compiles it.
   * @param identity everything that the result depends on besides the source
   */
  find(identity: string, source: string, compile: () => Uint8Array): Uint8Array {
    const key = createHash('sha256')
      .update(JSON.stringify([format, identity, source]))
      .digest('hex');
    const path = join(this.folder, `${key}.cubin`);
    const readKnown = (): Uint8Array | undefined => (this.isTrusted() ? read(path) : undefined);
    const compileAnew = (): Uint8Array => {
      const code = compile();
      this.keep(path, code);
      return code;
    };
    return readKnown() ?? takeCompileTurn(() => readKnown() ?? compileAnew());
  }

  private isTrusted(): boolean {
    try {
      const status = lstatSync(this.folder);
      return status.isDirectory() && isPrivate(status);
    } catch {
      return false;
    }
  }

  private keep(path: string, code: Uint8Array): void {
    try {
      makeFolderSync(this.folder, 'private');
      if (!this.isTrusted()) return;
      replaceFileSync(path, Buffer.concat([sha256(code), code]), { readers: 'private', isDurable: false });
      this.trim();
    } catch {
      // The disk is full, or the folder belongs to someone else.
    }
  }

  private trim(): void {
    const names = readdirSync(this.folder).filter((name) => kernelFileName.test(name));
    if (names.length <= this.most) return;
    const files = names.map((name) => join(this.folder, name));
    const used = files.map((path) => ({ path, at: statSync(path).mtimeMs })).sort((a, b) => a.at - b.at);
    for (const { path } of used.slice(0, names.length - this.most)) remove(path);
  }
}

function remove(path: string): void {
  try {
    rmSync(path, { force: true });
  } catch {
    // Keep it.
  }
}

/** Whether only this user and root can have written it. Windows has no such modes. */
function isPrivate({ uid, mode }: Stats): boolean {
  const own = process.getuid?.();
  return own === undefined || ((uid === own || uid === 0) && (mode & 0o022) === 0);
}

/** Also marks the file as used. */
function read(path: string): Uint8Array | undefined {
  let file: number | undefined;
  try {
    file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    const status = fstatSync(file);
    if (!status.isFile() || !isPrivate(status)) return undefined;
    const bytes = readFileSync(file);
    const code = bytes.subarray(hashBytes);
    if (!sha256(code).equals(bytes.subarray(0, hashBytes))) return undefined;
    touch(file);
    // Its own buffer, as the driver requires.
    return Uint8Array.from(code);
  } catch {
    return undefined;
  } finally {
    if (file !== undefined) closeSync(file);
  }
}

function touch(file: number): void {
  try {
    const now = new Date();
    futimesSync(file, now, now);
  } catch {
    // A read-only cache keeps its dates.
  }
}

const sha256 = (bytes: Uint8Array): Buffer => createHash('sha256').update(bytes).digest();

/** The kernels of a source, each with what comes before the first. */
export function splitKernels(source: string): readonly { readonly name: string; readonly own: string }[] {
  const [shared = '', ...kernels] = source.split(/^(?=extern "C" __global__ )/m);
  return kernels.map((kernel) => ({ name: /void (\w+)\(/.exec(kernel)![1]!, own: shared + kernel }));
}

const parameters = {
  nvrtcVersion: 'void *major, void *minor',
  nvrtcCreateProgram:
    'void *program, const void *source, const char *name, int headerCount, void *headers, void *includeNames',
  nvrtcDestroyProgram: 'void *program',
  nvrtcCompileProgram: 'void *program, int optionCount, const char **options',
  nvrtcGetProgramLogSize: 'void *program, void *bytes',
  nvrtcGetProgramLog: 'void *program, void *log',
  nvrtcGetCUBINSize: 'void *program, void *bytes',
  nvrtcGetCUBIN: 'void *program, void *code',
} as const;

type CompilerCall = keyof typeof parameters;
const compilationFailed = 6;
const longestLog = 4000;

export class KernelCompiler {
  readonly version: string;
  readonly #functions: Readonly<Record<CompilerCall, StatusFunction>>;
  readonly #describe: (status: number) => string;

  constructor(native: Pick<Native, 'readString'>, library: NativeLibrary) {
    this.#functions = bindFunctions(library, parameters);
    const describe = library.bind('void *nvrtcGetErrorString(int status)') as (status: number) => bigint;
    this.#describe = (status) => native.readString(describe(status));
    const [major, minor] = [new Int32Array(1), new Int32Array(1)];
    this.#call('nvrtcVersion', major, minor);
    this.version = `${major[0]!}.${minor[0]!}`;
  }

  /** @param capability for example [9, 0] */
  compile(source: string, capability: readonly [major: number, minor: number]): Uint8Array {
    const program = new BigUint64Array(1);
    // A buffer, because koffi copies strings into a small heap.
    const text = Buffer.from(`${source}\0`, 'utf8');
    this.#call('nvrtcCreateProgram', program, text, 'kernels.cu', 0, null, null);
    try {
      const options = compilerOptions(capability);
      const status = this.#functions.nvrtcCompileProgram(program[0]!, options.length, options);
      if (status !== 0) throw this.#refusal(status, program[0]!, capability);
      return this.#read('nvrtcGetCUBINSize', 'nvrtcGetCUBIN', program[0]!);
    } finally {
      this.#call('nvrtcDestroyProgram', program);
    }
  }

  #refusal(
    status: number,
    program: bigint,
    capability: readonly [major: number, minor: number],
  ): MistletoeError {
    const bytes = this.#read('nvrtcGetProgramLogSize', 'nvrtcGetProgramLog', program);
    const whole = Buffer.from(bytes).toString('utf8').replace(/\0+$/, '').trim();
    const log = whole.length > longestLog ? `${whole.slice(0, longestLog)}…` : whole;
    const architecture = architectureOf(capability);
    const reason = `${this.#describe(status)}.${log === '' ? '' : `\n${log}`}`;
    return new MistletoeError(
      'runtime',
      `NVRTC ${this.version} could not compile the kernels for ${architecture}: ${reason}`,
      {
        hint:
          status === compilationFailed
            ? 'The lines named are those of kernels that Mistletoe wrote itself: please report this message.'
            : `Install CUDA libraries that know ${architecture}, or run on the CPU.`,
      },
    );
  }

  #read(sizeCall: CompilerCall, contentCall: CompilerCall, program: bigint): Uint8Array {
    const size = new BigUint64Array(1);
    this.#call(sizeCall, program, size);
    const content = new Uint8Array(Number(size[0]!));
    if (content.length > 0) this.#call(contentCall, program, content);
    return content;
  }

  #call(name: CompilerCall, ...values: NativeValue[]): void {
    const status = this.#functions[name](...values);
    if (status !== 0) throw new MistletoeError('runtime', `${name} failed: ${this.#describe(status)}.`);
  }
}

const architectureOf = ([major, minor]: readonly [number, number]): string => `sm_${major}${minor}`;

export function compilerOptions(capability: readonly [major: number, minor: number]): string[] {
  return [`--gpu-architecture=${architectureOf(capability)}`, '--std=c++17', '-default-device'];
}
