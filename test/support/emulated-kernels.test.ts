import { expect, it } from 'vitest';
import type { HalfType } from '../../src/core/half-floats.js';
import { decodeHalves, roundToHalf } from '../../src/core/half-floats.js';
import { describeEmulated, floats } from './emulated-suite.js';

describeEmulated('kernels of the emulated device', (bench) => {
  it('map elements over a grid', async () => {
    const source = `
      __device__ __forceinline__ float twice(float x) { return 2.0f * x; }
      extern "C" __global__ void __launch_bounds__(128) test(float* __restrict__ out, const float* __restrict__ in, int n) {
        const int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) out[i] = twice(__ldg(in + i)) + 1.0f;
      }`;
    const count = 1000;
    const out = bench.device.allocate(4 * count);
    bench.launch(source, {
      grid: [8, 1, 1],
      block: 128,
      arguments: [out, bench.place(floats(count, (i) => i)), count],
    });
    expect(await bench.fetchFloats(out, count)).toEqual([...floats(count, (i) => 2 * i + 1)]);
  });

  it('see grids of three dimensions', async () => {
    const source = `extern "C" __global__ void test(float* out) {
      const int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
      out[block * blockDim.x + threadIdx.x] = 100 * blockIdx.z + 10 * blockIdx.y + blockIdx.x;
    }`;
    const out = bench.device.allocate(4 * 24 * 2);
    bench.launch(source, { grid: [2, 3, 4], block: 2, arguments: [out] });
    const expected = floats(
      48,
      (i) => 100 * Math.floor(i / 12) + 10 * (Math.floor(i / 4) % 3) + (Math.floor(i / 2) % 2),
    );
    expect(await bench.fetchFloats(out, 48)).toEqual([...expected]);
  });

  it.each([
    { kind: 'static', declaration: '__shared__ float sums[256];', sharedBytes: 0 },
    { kind: 'dynamic', declaration: 'extern __shared__ float sums[];', sharedBytes: 1024 },
  ])('reduce a block through $kind shared memory', async ({ declaration, sharedBytes }) => {
    const source = `extern "C" __global__ void test(float* out, const float* in) {
      ${declaration}
      sums[threadIdx.x] = in[blockIdx.x * blockDim.x + threadIdx.x];
      for (int half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
      }
      if (threadIdx.x == 0) out[blockIdx.x] = sums[0];
    }`;
    const out = bench.device.allocate(12);
    const values = bench.place(floats(768, (i) => i));
    bench.launch(source, { grid: [3, 1, 1], block: 256, sharedBytes, arguments: [out, values] });
    expect(await bench.fetchFloats(out, 3)).toEqual([32640, 98176, 163712]);
  });

  it.each(['__shared__ float x[2];', '__shared__ float x[2][2];', 'extern __shared__ float x[];'])(
    'find nothing defined in "%s" at the beginning of a block',
    async (declaration) => {
      const element = declaration.includes('[2][2]') ? 'x[1][0]' : 'x[1]';
      const source = `extern "C" __global__ void test(float* out) {
        ${declaration}
        out[blockIdx.x] = ${element};
        __syncthreads();
        ${element} = 1.0f;
      }`;
      const out = bench.device.allocate(8);
      bench.launch(source, { grid: [2, 1, 1], block: 32, sharedBytes: 16, arguments: [out] });
      expect(await bench.fetchFloats(out, 2)).toEqual([NaN, NaN]);
    },
  );

  it('reduce warps by shuffles, one after the other without a barrier between', async () => {
    const source = `
      template <typename T> __device__ T sumOf(T value) {
        #pragma unroll
        for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_xor_sync(0xffffffff, value, lanes);
        return value;
      }
      extern "C" __global__ void test(float* out, int* counts) {
        out[threadIdx.x] = sumOf((float)threadIdx.x) + sumOf(0.5f);
        atomicAdd(counts + threadIdx.x / warpSize, sumOf((int)threadIdx.x));
      }`;
    const [out, counts] = [bench.device.allocate(4 * 96), bench.place(new Int32Array(3))];
    bench.launch(source, { block: 96, arguments: [out, counts] });
    const sums = [0, 1, 2].map((warp) => 496 + 1024 * warp);
    expect(await bench.fetchFloats(out, 96)).toEqual([...floats(96, (i) => sums[Math.floor(i / 32)]! + 16)]);
    const read = new Int32Array(3);
    await bench.device.download(counts, read);
    expect([...read]).toEqual(sums.map((sum) => 32 * sum));
  });

  it('pass values by shuffles of each kind', async () => {
    const shuffles: [call: string, sourceOf: (lane: number) => number][] = [
      ['__shfl_down_sync(~0u, x, 3)', (lane) => (lane + 3 < 32 ? lane + 3 : lane)],
      ['__shfl_down_sync(~0u, x, 3, 8)', (lane) => ((lane % 8) + 3 < 8 ? lane + 3 : lane)],
      ['__shfl_up_sync(~0u, x, 3, 8)', (lane) => (lane % 8 < 3 ? lane : lane - 3)],
      ['__shfl_xor_sync(~0u, x, 5)', (lane) => lane ^ 5],
      ['__shfl_xor_sync(~0u, x, 8, 8)', (lane) => (lane & 8 ? lane ^ 8 : lane)],
      ['__shfl_sync(~0u, x, 7)', () => 7],
      ['__shfl_sync(~0u, x, 7, 16)', (lane) => (lane & 16) + 7],
    ];
    const source = `extern "C" __global__ void test(float* out) {
      const float x = threadIdx.x;
      ${shuffles.map(([call], index) => `out[${32 * index} + threadIdx.x] = ${call};`).join('\n')}
    }`;
    const out = bench.device.allocate(4 * 32 * shuffles.length);
    bench.launch(source, { block: 32, arguments: [out] });
    for (const [index, [call, sourceOf]] of shuffles.entries())
      expect(await bench.fetchFloats(out + BigInt(128 * index), 32), call).toEqual([...floats(32, sourceOf)]);
  });

  it('pass values among some of the lanes', async () => {
    const source = `extern "C" __global__ void test(float* out) {
      const float x = threadIdx.x;
      if (threadIdx.x < 8) out[threadIdx.x] = __shfl_sync(0xffu, x, threadIdx.x % 2 == 0 ? 1 : 9);
      else __syncwarp(0xffffff00u);
    }`;
    const out = bench.device.allocate(4 * 8);
    bench.launch(source, { block: 32, arguments: [out] });
    expect(await bench.fetchFloats(out, 8)).toEqual([1, NaN, 1, NaN, 1, NaN, 1, NaN]);
  });

  it('see NaN from lanes that do not exist', async () => {
    const source = `extern "C" __global__ void test(float* out) {
      out[threadIdx.x] = __shfl_xor_sync(0xffffffff, 1.0f, 16);
    }`;
    const out = bench.device.allocate(4 * 24);
    bench.launch(source, { block: 24, arguments: [out] });
    expect(await bench.fetchFloats(out, 24)).toEqual([...floats(24, (lane) => ((lane ^ 16) < 24 ? 1 : NaN))]);
  });

  it('go on at a barrier without threads that have returned', async () => {
    const source = `extern "C" __global__ void test(float* out) {
      __shared__ float first;
      if (threadIdx.x >= 40) return;
      if (threadIdx.x == 39) first = 7.0f;
      __syncthreads();
      out[threadIdx.x] = first;
    }`;
    const out = bench.device.allocate(4 * 40);
    bench.launch(source, { arguments: [out] });
    expect(await bench.fetchFloats(out, 40)).toEqual(new Array(40).fill(7));
  });

  it('that wait for each other for ever are refused, and the next ones run', async () => {
    const source = `extern "C" __global__ void test(float* out, int split) {
      if (threadIdx.x < split) __syncthreads();
      else __syncwarp();
      out[threadIdx.x] = 1.0f;
    }`;
    const out = bench.device.allocate(4 * 64);
    expect(() => {
      bench.launch(source, { arguments: [out, 16] });
    }).toThrow('wait at a barrier');
    bench.launch(source, { arguments: [out, 32] });
    expect(await bench.fetchFloats(out, 64)).toEqual(new Array(64).fill(1));
  });

  it('compute as CUDA does', async () => {
    const results: [expression: string, value: number][] = [
      ['min(3, n)', -5],
      ['max(3, n)', 3],
      ['max(2u, 3u)', 3],
      ['min(2.0f, NAN)', 2],
      ['fminf(1.0f, 2.0f)', 1],
      ['fmaxf(1.0f, 2.0f)', 2],
      ['rsqrtf(4.0f)', 0.5],
      ['sqrtf(9.0f)', 3],
      ['expf(0.0f)', 1],
      ['__expf(0.0f)', 1],
      ['logf(1.0f)', 0],
      ['__frcp_rn(4.0f)', 0.25],
      ['INFINITY', Infinity],
      ['isnan(NAN)', 1],
      ['__int_as_float(0x3f800000)', 1],
      ['__float_as_int(1.0f)', 0x3f800000],
      ['n / 2', -2],
    ];
    const source = `extern "C" __global__ void test(float* out, int n) {
      ${results.map(([expression], index) => `out[${index}] = ${expression};`).join('\n')}
    }`;
    const out = bench.device.allocate(4 * results.length);
    bench.launch(source, { arguments: [out, -5] });
    const computed = await bench.fetchFloats(out, results.length);
    expect(results.map(([expression], index) => [expression, computed[index]])).toEqual(results);
  });

  it.each<{ type: HalfType; header: string; cudaType: string; name: string }>([
    { type: 'bfloat16', header: 'cuda_bf16.h', cudaType: '__nv_bfloat16', name: 'bfloat16' },
    { type: 'float16', header: 'cuda_fp16.h', cudaType: '__half', name: 'half' },
  ])('round to $type and read it as the host does', async ({ type, header, cudaType, name }) => {
    const source = `#include <${header}>
      extern "C" __global__ void test(${cudaType}* halves, float* out, const float* in, int n) {
        const int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i >= n) return;
        halves[i] = __float2${name}(in[i]);
        out[i] = __${name}2float(halves[i]);
      }`;
    const all = decodeHalves(
      Uint16Array.from({ length: 65536 }, (_, bits) => bits),
      type,
    );
    const between = floats(65535, (i) => (all[i]! + all[i + 1]!) / 2); // ties, but where types end
    const odd = Float32Array.of(0.1, 65519.99, 65520, 3e38, 3.4e38, -3.4e38, 1e-8, -1e-45, 1e-40, Math.PI);
    const values = Float32Array.from([...all, ...between, ...odd]);
    const { length } = values;
    const [halves, out] = [bench.device.allocate(2 * length), bench.device.allocate(4 * length)];
    const grid = [Math.ceil(length / 64), 1, 1] as const;
    bench.launch(source, { grid, arguments: [halves, out, bench.place(values), length] });
    const bits = new Uint16Array(length);
    await bench.device.download(halves, bits);
    const [read, stored] = [await bench.fetchFloats(out, length), decodeHalves(bits, type)];
    const differing = [...values].filter((value, index) => {
      const expected = roundToHalf(value, type);
      return !Object.is(read[index], expected) || !Object.is(stored[index], expected);
    });
    expect(differing).toEqual([]);
  });
});
