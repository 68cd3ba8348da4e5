/** What kernels ask of a GPU by assembly, and what the same kernels compute on a GPU that has no such instructions. */
import { afterAll, describe, expect, it } from 'vitest';
import type { HalfType } from '../../src/core/half-floats.js';
import { decodeHalves, encodeHalves } from '../../src/core/half-floats.js';
import { kernelPrelude } from '../../src/runtime/cuda/kernels/kernel-plan.js';
import { createEmulatedDevice, findCompiler } from './emulated-device.js';
import { floats } from './emulated-suite.js';

const lanes = Array.from({ length: 32 }, (_, lane) => lane);

describe.skipIf(findCompiler() === undefined).each([
  { title: 'with tensor cores', capability: [9, 0] as const },
  { title: 'without tensor cores', capability: [7, 5] as const },
])('a device $title', ({ capability }) => {
  const device = createEmulatedDevice(capability);
  afterAll(() => {
    device.dispose();
  });

  /** Runs `body` in 32 lanes; it reads `values` and fills `out`. */
  async function run(body: string, values: ArrayBufferView, out: Float32Array | Uint32Array): Promise<void> {
    const source = `${kernelPrelude}
      extern "C" __global__ void test(unsigned* out, const unsigned* in) { const int lane = threadIdx.x; ${body} }`;
    const [from, to] = [device.allocate(values.byteLength), device.allocate(out.byteLength)];
    device.upload(from, values);
    const kernel = device.compile(source).kernel('test');
    device.launch({ kernel, grid: [1, 1, 1], block: 32, arguments: [to, from] });
    await device.download(to, out);
  }

  /** The product of tiles whose lanes hold four words of the left side and two of the right. */
  function multiply(left: readonly (readonly number[])[], right: readonly (readonly number[])[]): number[] {
    const at = (row: number, column: number): number =>
      left[row]!.reduce((sum, value, place) => sum + value * right[place]![column]!, 1000);
    return lanes.flatMap((lane) =>
      [0, 1, 2, 3].map((part) => at((lane >> 2) + 8 * (part >> 1), 2 * (lane % 4) + (part % 2))),
    );
  }
  const matrix = (rows: number, columns: number, seed: number): number[][] =>
    Array.from({ length: rows }, (_, row) =>
      Array.from({ length: columns }, (_, column) => ((row * 5 + column * 3 + seed) % 13) - 6),
    );
  const sums = 'float sums[4] = {1000.0f, 1000.0f, 1000.0f, 1000.0f};';
  const store = 'for (int i = 0; i < 4; i++) ((float*)out)[4 * lane + i] = sums[i];';

  it('multiplies tiles of floats', async () => {
    const [left, right] = [matrix(16, 8, 1), matrix(8, 8, 2)];
    const values = lanes.flatMap((lane) => {
      const [g, t] = [lane >> 2, lane % 4];
      const rows = [left[g]![t]!, left[g + 8]![t]!, left[g]![t + 4]!, left[g + 8]![t + 4]!];
      return [...rows, right[t]![g]!, right[t + 4]![g]!];
    });
    const found = new Float32Array(128);
    const operands = [0, 1, 2, 3, 4, 5].map((i) => `((const float*)in)[6 * lane + ${i}]`);
    await run(
      `${sums} multiplyTile(sums, ${operands.join(', ')}); ${store}`,
      Float32Array.from(values),
      found,
    );
    expect([...found]).toEqual(multiply(left, right));
  });

  it.each<[HalfType, string]>([
    ['bfloat16', 'multiplyBfloat16'],
    ['float16', 'multiplyFloat16'],
  ])('multiplies tiles of %s', async (type, name) => {
    const [left, right] = [matrix(16, 16, 3), matrix(16, 8, 4)];
    const values = lanes.flatMap((lane) => {
      const [g, t] = [lane >> 2, lane % 4];
      const rows = [0, 8].flatMap((place) =>
        [g, g + 8].flatMap((row) => [left[row]![2 * t + place]!, left[row]![2 * t + place + 1]!]),
      );
      return [...rows, ...[0, 1, 8, 9].map((place) => right[2 * t + place]![g]!)];
    });
    const found = new Float32Array(128);
    const words = 'unsigned left[4]; for (int i = 0; i < 4; i++) left[i] = in[6 * lane + i];';
    const call = `${name}(sums, left, in[6 * lane + 4], in[6 * lane + 5]);`;
    await run(`${sums} ${words} ${call} ${store}`, encodeHalves(values, type), found);
    expect([...found]).toEqual(multiply(left, right));
  });

  it('packs, rounds and loads', async () => {
    const values = floats(64, (index) => Math.sin(index) * 10 ** ((index % 9) - 4));
    values.set([Infinity, -Infinity, 0, -0, 65520, 1e-8], 0);
    for (const [type, name] of [
      ['bfloat16', 'packBfloat16'],
      ['float16', 'packFloat16'],
    ] as const) {
      const found = new Uint32Array(32);
      await run(`out[lane] = ${name}(((float*)in)[2 * lane], ((float*)in)[2 * lane + 1]);`, values, found);
      expect(found).toEqual(new Uint32Array(encodeHalves(values, type).buffer));
    }
    const rounded = new Float32Array(32);
    await run('((float*)out)[lane] = toTensorCore(((float*)in)[lane]);', values, rounded);
    for (const [index, value] of rounded.entries())
      if (index > 3) expect(Math.abs(value / values[index]! - 1)).toBeLessThanOrEqual(2 ** -11);
    expect([...rounded.subarray(0, 4)]).toEqual([Infinity, -Infinity, 0, -0]);
    const loaded = new Float32Array(64);
    await run('if (lane < 16) ((uint4*)out)[lane] = loadOnce((const uint4*)in + lane);', values, loaded);
    expect(loaded).toEqual(values);
    await run('((uint2*)out)[lane] = readAhead((const uint2*)in + lane);', values, loaded.fill(0));
    expect(loaded).toEqual(values);
  });

  it('widen and round four values as they are stored', async () => {
    const values = floats(128, (index) => Math.sin(index) * 10 ** ((index % 9) - 4));
    for (const [type, name] of [
      ['bfloat16', 'Bfloat16'],
      ['float16', 'Float16'],
    ] as const) {
      const stored = encodeHalves(values, type);
      const found = new Float32Array(128);
      await run(`((float4*)out)[lane] = round${name}(((const float4*)in)[lane]);`, values, found);
      expect(found).toEqual(decodeHalves(stored, type));
      const packed = new Float32Array(stored.buffer);
      await run(`((float4*)out)[lane] = widen${name}(((const uint2*)in)[lane]);`, packed, found.fill(0));
      expect(found).toEqual(decodeHalves(stored, type));
    }
  });
});
