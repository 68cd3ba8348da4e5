import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CudaDevice } from '../../src/runtime/cuda/driver/cuda-device.js';
import { findDevices } from '../../src/runtime/cuda/driver/find-devices.js';
import { deviceChecks } from '../support/runtime/cuda/device-checks.js';

const { devices, reason } = findDevices();
const title = reason === undefined ? 'a GPU' : `a GPU (skipped, there is none: ${reason})`;

describe.skipIf(devices.length === 0)(title, () => {
  let device: CudaDevice;
  beforeAll(() => {
    device = CudaDevice.open();
  });
  afterAll(() => {
    device.dispose();
  });

  it.each(deviceChecks)('$name', async ({ run }) => {
    expect(await run(device)).toEqual([]);
  });

  it('stays usable when another user of it closes', async () => {
    const other = CudaDevice.open();
    const address = device.allocate(4);
    other.dispose();
    device.upload(address, Int32Array.of(7));
    const read = new Int32Array(1);
    await device.download(address, read);
    device.free(address);
    expect(read[0]).toBe(7);
    expect(() => other.allocate(4)).toThrow('has been closed');
  });

  it('refuses a GPU that there is not', () => {
    expect(() => CudaDevice.open(devices.length)).toThrow(`There is no GPU ${devices.length}`);
  });
});
