/** NVRTC: CUDA C++ to machine code. Nothing precedes the source, so line numbers match. No fast-math. */
import { MistletoeError } from '../../../core/errors.js';
import type { Native, NativeLibrary, NativeValue, StatusFunction } from './native-library.js';
import { bindFunctions } from './native-library.js';

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
    const log = Buffer.from(bytes).toString('utf8').replace(/\0+$/, '').trim();
    return compileFailure({
      version: this.version,
      architecture: architectureOf(capability),
      reason: this.#describe(status),
      log,
      refusedSource: status === compilationFailed,
    });
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

export function compileFailure(failure: {
  readonly version: string;
  readonly architecture: string;
  readonly reason: string;
  readonly log: string;
  readonly refusedSource: boolean;
}): MistletoeError {
  const { version, architecture, reason, refusedSource } = failure;
  const log = failure.log.length > longestLog ? `${failure.log.slice(0, longestLog)}…` : failure.log;
  return new MistletoeError(
    'runtime',
    `NVRTC ${version} could not compile the kernels for ${architecture}: ${reason}.${log === '' ? '' : `\n${log}`}`,
    {
      hint: refusedSource
        ? 'The lines named are those of kernels that Mistletoe wrote itself: please report this message.'
        : `Install CUDA libraries that know ${architecture}, or run on the CPU.`,
    },
  );
}
