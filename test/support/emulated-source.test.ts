import { describe, expect, it } from 'vitest';
import { splitKernels } from './emulated-source.js';

describe('a CUDA source', () => {
  const kernel = (name: string, body: string): string =>
    `extern "C" __global__ void __launch_bounds__(64) ${name}(float* out) {\n  ${body}\n}\n`;

  it('is split into kernels that are equal in every source', () => {
    const helpers = '__device__ int two() { return 2; }\n';
    const loop = 'for (int i = 0; i < 2; i++) { out[i] = two(); }';
    const first = splitKernels(`${helpers}${kernel('a', 'out[0] = 1;')}${kernel('b', loop)}`);
    const [other] = splitKernels(`${helpers}\n${kernel('c', loop)}`.replace('\n\n', '\n'));
    expect(first.map(({ name, line }) => [name, line])).toEqual([
      ['a', 2],
      ['b', 5],
    ]);
    expect(other).toEqual({ ...first[1]!, name: 'c', line: 2 });
    expect(first[0]!.definition).not.toBe(first[1]!.definition);
    expect(splitKernels(helpers)).toEqual([]);
  });

  it('has its helpers before the first kernel', () => {
    const source = `${kernel('a', '')}__device__ int two() { return 2; }\n${kernel('b', 'two();')}`;
    expect(() => splitKernels(source)).toThrow('code after kernel a');
  });

  it('may use instructions that the device has', () => {
    const assembly = (instruction: string): string =>
      `unsigned word;\n asm("${instruction}" : "=r"(word) : "f"(out[0]));`;
    const [known] = splitKernels(kernel('a', assembly('cvt.rna.tf32.f32 %0, %1;')));
    expect(known!.definition).toMatch(/emulated::roundToTf32\(\s*\(word\)\s*,\s*\(out\[0\]\)\);/);
    expect(() => splitKernels(kernel('a', assembly('cvt.rna.tf32.f32 %1, %0;')))).toThrow(
      'no instruction "cvt.rna.tf32.f32 %1, %0;"',
    );
  });
});
