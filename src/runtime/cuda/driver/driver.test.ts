import { describe, expect, it } from 'vitest';
import { MistletoeError } from '../../../core/errors.js';
import { DeviceLostError, OutOfMemoryError } from '../../program.js';
import { Driver } from './driver.js';
import type { Handlers } from '../../../../test/support/runtime/cuda/fake-library.js';
import { fakeLibrary, fakeNative, write } from '../../../../test/support/runtime/cuda/fake-library.js';

const texts = { '1': 'CUDA_ERROR_ILLEGAL_ADDRESS', '2': 'an illegal memory access was encountered' };

const base: Handlers = {
  cuDriverGetVersion: (version) => write(version, 13010),
  cuGetErrorName: (_, text) => write(text, 1),
  cuGetErrorString: (_, text) => write(text, 2),
};

const createDriver = (handlers: Handlers): Driver =>
  new Driver(fakeNative(texts), fakeLibrary({ ...base, ...handlers }));

function refusal(act: () => unknown): MistletoeError {
  try {
    act();
  } catch (cause) {
    if (cause instanceof MistletoeError) return cause;
  }
  throw new Error('no MistletoeError');
}

describe('the driver', () => {
  it('knows its version', () => {
    expect(createDriver({}).major).toBe(13);
  });

  it('names the call that failed and what the driver says of it', () => {
    const driver = createDriver({ cuStreamSynchronize: () => 700 });
    const error = refusal(() => {
      driver.call('cuStreamSynchronize', 5n);
    });
    expect(error.code).toBe('runtime');
    expect(error.message).toBe(
      'cuStreamSynchronize failed: CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered).',
    );
    expect(error.hint).toContain('An earlier kernel failed');
  });

  it.each([
    [2, OutOfMemoryError],
    [214, DeviceLostError],
    [700, DeviceLostError],
    [719, DeviceLostError],
    [999, DeviceLostError],
  ])('tells by the kind of an error what status %i means', (status, kind) => {
    const driver = createDriver({ cuMemFree_v2: () => status });
    const free = (): void => {
      driver.call('cuMemFree_v2', 5n);
    };
    expect(free).toThrow(kind);
  });

  it('gives the number of a status that the driver does not know', () => {
    const driver = createDriver({ cuMemFree_v2: () => 12345, cuGetErrorName: () => 1 });
    const error = refusal(() => {
      driver.call('cuMemFree_v2', 5n);
    });
    expect(error.message).toBe('cuMemFree_v2 failed: status 12345.');
    expect(error.hint).toBeUndefined();
  });

  it('says how much was asked for and how much there is where memory is short', () => {
    const driver = createDriver({
      cuMemAlloc_v2: () => 2,
      cuMemGetInfo_v2: (free, total) => {
        write(free, 300);
        return write(total, 1000);
      },
    });
    const error = refusal(() => driver.allocate(4096));
    expect(error.message).toBe('The GPU has no room for 4096 bytes: 300 of its 1000 bytes are free.');
    expect(error.hint).toMatch(/batch or the context.*smaller type/);
  });

  it('returns what a call writes through its first parameter', () => {
    const driver = createDriver({
      cuMemAlloc_v2: (address) => write(address, 0x7f00_0000_0100n),
      cuDeviceGetCount: (count) => write(count, 3),
    });
    expect(driver.allocate(8)).toBe(0x7f00_0000_0100n);
    expect(driver.integer('cuDeviceGetCount')).toBe(3);
  });

  it('makes a context current only where another one is', () => {
    const library = fakeLibrary(base);
    const driver = new Driver(fakeNative(), library);
    for (const context of [7n, 7n, 8n, 8n, 7n]) driver.makeCurrent(context);
    const made = library.calls.filter(([name]) => name === 'cuCtxSetCurrent').map(([, context]) => context);
    expect(made).toEqual([7n, 8n, 7n]);
  });

  it('says which function a library lacks', () => {
    const library = {
      path: '/usr/lib/libcuda.so.1',
      bind: () => {
        throw new Error("Cannot find function 'cuInit' in shared library");
      },
    };
    const error = refusal(() => new Driver(fakeNative(), library));
    expect(error.message).toBe(
      "/usr/lib/libcuda.so.1 cannot be used: Cannot find function 'cuInit' in shared library.",
    );
  });
});
