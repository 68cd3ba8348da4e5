import { describe, expect, it } from 'vitest';
import { MistletoeError } from '../../../core/errors.js';
import { KernelCompiler, compilerOptions } from './kernel-compiler.js';
import type { FakeLibrary } from '../../../../test/support/runtime/cuda/fake-library.js';
import { fakeLibrary, fakeNative, write } from '../../../../test/support/runtime/cuda/fake-library.js';

const texts = { '1': 'NVRTC_ERROR_COMPILATION', '2': 'NVRTC_ERROR_INVALID_OPTION' };
const log = 'kernels.cu(3): error: identifier "two" is undefined\n';

const fill = (target: unknown, text: string): 0 => {
  if (target instanceof Uint8Array) target.set(Buffer.from(text));
  return 0;
};

const createLibrary = (status: number, written = log): FakeLibrary =>
  fakeLibrary({
    nvrtcVersion: (major, minor) => {
      write(major, 13);
      return write(minor, 1);
    },
    nvrtcGetErrorString: (code) => (code === 6 ? 1n : 2n),
    nvrtcCreateProgram: (program) => write(program, 77),
    nvrtcCompileProgram: () => status,
    nvrtcGetProgramLogSize: (_, size) => write(size, written.length + 1),
    nvrtcGetProgramLog: (_, target) => fill(target, written),
    nvrtcGetCUBINSize: (_, size) => write(size, 4),
    nvrtcGetCUBIN: (_, target) => fill(target, 'code'),
  });

function refusal(library: FakeLibrary): MistletoeError {
  try {
    new KernelCompiler(fakeNative(texts), library).compile('source', [9, 0]);
  } catch (cause) {
    if (cause instanceof MistletoeError) return cause;
  }
  throw new Error('no MistletoeError');
}

const named = (library: FakeLibrary, name: string): FakeLibrary['calls'] =>
  library.calls.filter(([call]) => call === name);

describe('the kernel compiler', () => {
  it('compiles for the architecture, without fast-math', () => {
    expect(compilerOptions([9, 0])).toEqual(['--gpu-architecture=sm_90', '--std=c++17', '-default-device']);
    expect(compilerOptions([12, 1])[0]).toBe('--gpu-architecture=sm_121');
  });

  it('gives the source as it is, ended as C ends it, and returns the code', () => {
    const library = createLibrary(0);
    const code = new KernelCompiler(fakeNative(texts), library).compile('void a() {}\n// ä', [9, 0]);
    expect(Buffer.from(code).toString()).toBe('code');
    const [[, , source] = []] = named(library, 'nvrtcCreateProgram');
    expect(Buffer.from(source as Uint8Array).toString('utf8')).toBe('void a() {}\n// ä\0');
    expect(named(library, 'nvrtcDestroyProgram')).toHaveLength(1);
  });

  it("puts the compiler's log into the error", () => {
    const library = createLibrary(6);
    const { message, hint } = refusal(library);
    expect(message).toBe(
      `NVRTC 13.1 could not compile the kernels for sm_90: NVRTC_ERROR_COMPILATION.\n${log.trim()}`,
    );
    expect(hint).toContain('report this message');
    expect(named(library, 'nvrtcDestroyProgram')).toHaveLength(1);
  });

  it('asks for newer libraries where it does not know the architecture', () => {
    const { message, hint } = refusal(createLibrary(5, ''));
    expect(message).toBe('NVRTC 13.1 could not compile the kernels for sm_90: NVRTC_ERROR_INVALID_OPTION.');
    expect(hint).toContain('that know sm_90');
  });

  it('cuts off an endless log', () => {
    expect(refusal(createLibrary(6, 'x'.repeat(100_000))).message.length).toBeLessThan(5000);
  });
});
