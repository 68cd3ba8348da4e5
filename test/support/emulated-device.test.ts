import { describe, expect, it } from 'vitest';
import type { Launch } from '../../src/runtime/cuda/driver/device.js';
import { createEmulatedDevice } from './emulated-device.js';
import { describeEmulated } from './emulated-suite.js';

describeEmulated('the emulated device', (bench) => {
  describe('memory', () => {
    it('is aligned, counted, and begins as NaN', async () => {
      const before = bench.device.freeBytes();
      const address = bench.device.allocate(12);
      expect(address % 256n).toBe(0n);
      expect(bench.device.freeBytes()).toBe(before - 12);
      expect(await bench.fetchFloats(address, 3)).toEqual([NaN, NaN, NaN]);
      bench.device.free(address);
      expect(bench.device.freeBytes()).toBe(before);
    });

    it('is written, copied, cleared and read at any address of an allocation', async () => {
      const from = bench.place(Float32Array.of(0, 1, 2, 3, 4, 5).subarray(1));
      const to = bench.device.allocate(20);
      bench.device.copy(to + 4n, from + 8n, 8);
      expect(await bench.fetchFloats(to, 3)).toEqual([NaN, 3, 4]);
      bench.device.clear(to, 8);
      expect(await bench.fetchFloats(to, 4)).toEqual([0, 0, 4, NaN]);
      expect(await bench.fetchFloats(from + 12n, 2)).toEqual([4, 5]);
    });

    it('is read as it was at the time of the call', async () => {
      const address = bench.place(Float32Array.of(1));
      const reading = bench.fetchFloats(address, 1);
      bench.device.upload(address, Float32Array.of(2));
      expect(await reading).toEqual([1]);
    });

    it('is refused outside of allocations', async () => {
      const address = bench.device.allocate(16);
      const other = bench.device.allocate(16);
      expect(() => bench.device.allocate(0)).toThrow('0 is not a number of bytes');
      expect(() => bench.device.allocate(2 ** 31 + 1)).toThrow('no room for 2147483649 bytes');
      expect(() => {
        bench.device.free(address + 4n);
      }).toThrow('no allocation begins at');
      expect(() => {
        bench.device.upload(address + 4n, new Float32Array(4));
      }).toThrow('end past');
      expect(() => {
        bench.device.clear(address + 16n, 1);
      }).toThrow('lie in no allocation');
      expect(() => {
        bench.device.copy(other, address, 17);
      }).toThrow('end past');
      expect(() => {
        bench.device.copy(address, other, 17);
      }).toThrow('end past');
      expect(() => {
        bench.device.copy(address, address + 4n, 8);
      }).toThrow('overlap');
      await expect(bench.device.download(address - 4n, new Float32Array(1))).rejects.toThrow(
        'lie in no allocation',
      );
      bench.device.free(address);
      expect(() => {
        bench.device.free(address);
      }).toThrow('no allocation begins at');
      expect(() => {
        bench.device.clear(address, 4);
      }).toThrow('lie in no allocation');
    });

    it('is gone with its device', async () => {
      const other = createEmulatedDevice();
      const address = other.allocate(4);
      other.dispose();
      expect(() => other.allocate(4)).toThrow('disposed');
      await expect(other.download(address, new Float32Array(1))).rejects.toThrow('disposed');
    });
  });

  describe('a kernel that writes where it may not', () => {
    const source = `extern "C" __global__ void test(float* out, int at) { out[at] = 1.0f; }`;
    const hidden = `extern "C" __global__ void test(float** out, int at) { out[0][at] = 1.0f; }`;

    it.each([
      { at: 4, where: 'past the end of' },
      { at: 1027, where: 'past the end of' },
      { at: -1, where: 'before the beginning of' },
      { at: -1024, where: 'before the beginning of' },
    ])('is named, at $at of 4', ({ at, where }) => {
      const out = bench.device.allocate(16);
      expect(() => {
        bench.launch(source, { arguments: [out, at] });
      }).toThrow(`launch of test: a kernel wrote ${where}`);
    });

    it('shows at the next download and when it is freed, had it the address from elsewhere', async () => {
      const out = bench.device.allocate(16);
      bench.launch(hidden, { arguments: [bench.place(BigUint64Array.of(out)), 4] });
      await expect(bench.fetchFloats(out, 4)).rejects.toThrow('download: a kernel wrote past the end of');
      expect(() => {
        bench.device.free(out);
      }).toThrow('free: a kernel wrote past the end of');
    });

    it('is found where it reads past one end and writes past another', () => {
      const copying = `extern "C" __global__ void test(float* out, const float* in) {
        out[threadIdx.x] = in[threadIdx.x] + 1.0f;
      }`;
      const [out, values] = [bench.device.allocate(128), bench.place(new Float32Array(32))];
      expect(() => {
        bench.launch(copying, { arguments: [out, values] });
      }).toThrow('past the end of');
    });

    it('is found past the end of its shared memory', () => {
      const shared = `extern "C" __global__ void test(int at) { extern __shared__ float x[]; x[at] = 1.0f; }`;
      bench.launch(shared, { sharedBytes: 8, arguments: [1] });
      expect(() => {
        bench.launch(shared, { sharedBytes: 8, arguments: [2] });
      }).toThrow('dynamic shared memory');
    });
  });

  describe('what is not a kernel or a launch of one', () => {
    const source = `extern "C" __global__ void test(float* out, int n) {}`;
    const fits: Launch['arguments'] = [0n, 1];

    it('is refused by the compiler, with its log', () => {
      expect(() =>
        bench.device.compile(`extern "C" __global__ void test(int n) {\n  n = missing;\n}`),
      ).toThrow(/kernels\.cu:2:.*missing/);
      expect(() => bench.device.compile(`extern "C" __global__ void test(float x) {}`)).toThrow(
        'pointers and ints',
      );
      expect(() => bench.device.compile(`extern "C" __global__ void test(__half* x) {}`)).toThrow('__half');
      expect(() => bench.device.compile(source).kernel('other')).toThrow('which has: test');
    });

    it('may be compiled together with others, and launched before all of them are', async () => {
      const write = (value: number): string =>
        `extern "C" __global__ void test(float* out) { out[threadIdx.x] = ${value}.0f; }`;
      const out = bench.device.allocate(4);
      const start = (kernel: Launch['kernel']): void => {
        bench.device.launch({ kernel, grid: [1, 1, 1], block: 1, arguments: [out] });
      };
      const last = await bench.device.compileTogether(() => {
        start(bench.device.compile(write(11)).kernel('test'));
        return Promise.resolve(bench.device.compile(write(12)).kernel('test'));
      });
      expect(await bench.fetchFloats(out, 1)).toEqual([11]);
      start(last);
      expect(await bench.fetchFloats(out, 1)).toEqual([12]);
      const broken = bench.device.compileTogether(() =>
        Promise.resolve(bench.device.compile('extern "C" __global__ void test(int n) { n = absent; }')),
      );
      await expect(broken).rejects.toThrow('absent');
      start(bench.device.compile(write(13)).kernel('test'));
    });

    it.each<Partial<Launch>>([
      { block: 0 },
      { block: 1025 },
      { block: 1.5 },
      { grid: [0, 1, 1] },
      { grid: [2 ** 31, 1, 1] },
      { grid: [1, 65536, 1] },
      { grid: [1, 1, 65536] },
      { sharedBytes: 48 * 1024 + 1 },
      { arguments: [1, 1] },
      { arguments: [0n, 1n] },
      { arguments: [0n, 2 ** 31] },
      { arguments: [0n, 0.5] },
      { arguments: [0n] },
      { arguments: [256n, 1] },
    ])('is refused: %o', (options) => {
      expect(() => {
        bench.launch(source, { arguments: fits, ...options });
      }).toThrow('launch of test');
    });

    it('is allowed at the limits', async () => {
      bench.launch(source, { arguments: fits, block: 1024, sharedBytes: 48 * 1024, grid: [1, 3, 2] });
      await expect(bench.device.synchronize()).resolves.toBeUndefined();
    });

    it('is refused when its module is unloaded, though another of the same source stays', () => {
      const [first, second] = [bench.device.compile(source), bench.device.compile(source)];
      const kernels = [first.kernel('test'), second.kernel('test')] as const;
      first.unload();
      const start = (kernel: Launch['kernel']): void => {
        bench.device.launch({ kernel, grid: [1, 1, 1], block: 1, arguments: fits });
      };
      expect(() => {
        start(kernels[0]);
      }).toThrow('not loaded');
      start(kernels[1]);
    });
  });
});
