import { describe, expect, it } from 'vitest';
import { MistletoeError } from '../../../core/errors.js';
import { DeviceLostError } from '../../program.js';
import { createCudaRuntime } from '../cuda-runtime.js';
import type { Device } from './device.js';

/** A device that allocates, and fails at everything else. */
function createBroken(failure: () => MistletoeError): Device & { readonly disposals: number } {
  let disposals = 0;
  const fail = (): never => {
    throw failure();
  };
  return {
    ...{ name: 'broken', computeCapability: [9, 0], totalBytes: 1 },
    ...{ freeBytes: () => 1, allocate: () => 256n },
    ...{ free: fail, upload: fail, copy: fail, clear: fail, compile: fail, launch: fail, multiply: fail },
    ...{ record: fail, replay: fail },
    download: () => Promise.reject(failure()),
    synchronize: () => Promise.reject(failure()),
    dispose: () => {
      disposals += 1;
    },
    get disposals() {
      return disposals;
    },
  };
}

describe('the end of a runtime', () => {
  it('whose device is lost says nothing more than what failed first', async () => {
    const device = createBroken(() => new DeviceLostError('The GPU is gone.', 'Start again.'));
    const runtime = createCudaRuntime(device);
    expect(() => runtime.allocate(2, 2)).toThrow('The GPU is gone.');
    await runtime.dispose();
    expect(device.disposals).toBe(1);
  });

  it('passes on every other failure, and closes the device all the same', async () => {
    const device = createBroken(() => new MistletoeError('runtime', 'That is a bug.'));
    const runtime = createCudaRuntime(device);
    await expect(runtime.dispose()).rejects.toThrow('That is a bug.');
    expect(device.disposals).toBe(1);
  });
});
