/** Compiling is most of a first start, so no kernel is compiled twice, in whatever order programs come. */
import { expect, it } from 'vitest';
import { symbol } from '../../graph/dimension.js';
import { add, multiply, silu } from '../../graph/operations/elementwise.js';
import { input } from '../../graph/tensor.js';
import { softmax } from '../../graph/operations/reductions.js';
import type { NamedTensors } from '../program.js';
import { createCudaRuntime } from './cuda-runtime.js';
import type { Device } from './driver/device.js';
import { splitKernels } from './driver/kernel-compiler.js';

const x = input('x', [symbol('row'), 64]);
const y = input('y', [symbol('row'), 64]);
const first: NamedTensors = { sum: silu(add(x, y)), shares: softmax(x) };
const second: NamedTensors = { shares: softmax(x), product: multiply(x, y) };

/** Names and texts of what a device is asked to compile. */
async function compileAll(programs: readonly NamedTensors[]) {
  const asked: { readonly name: string; readonly own: string }[] = [];
  const device = {
    computeCapability: [9, 0],
    compile(source: string) {
      asked.push(...splitKernels(source));
      return { kernel: (name: string) => ({ name }), unload: () => undefined };
    },
  } as unknown as Device;
  const runtime = createCudaRuntime(device);
  for (const outputs of programs) await runtime.compile(outputs);
  return asked;
}

it('compiles what two programs have in common once', async () => {
  const [alone, other] = [await compileAll([first]), await compileAll([second])];
  const both = await compileAll([first, second]);
  expect(both.length).toBeLessThan(alone.length + other.length);
  expect(new Set(both.map(({ own }) => own)).size).toBe(both.length);
});

it('gives a kernel the same name and source, whatever was compiled before', async () => {
  const sortedTexts = (kernels: Awaited<ReturnType<typeof compileAll>>) =>
    kernels.map(({ own }) => own).sort();
  expect(sortedTexts(await compileAll([second, first]))).toEqual(
    sortedTexts(await compileAll([first, second])),
  );
});

it('hands each kernel to the compiler with the code before it and without the others', async () => {
  const kernels = await compileAll([first]);
  expect(kernels.length).toBeGreaterThan(1);
  for (const { name, own } of kernels) {
    expect(own.match(/extern "C" __global__/g)).toHaveLength(1);
    expect(own).toContain(` ${name}(const int* symbols`);
    expect(own).toContain('__device__ void waitForEarlier(');
  }
});
