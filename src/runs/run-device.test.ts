import { describe, expect, it } from 'vitest';
import { MistletoeError } from '../core/errors.js';
import type { DeviceSearch } from '../runtime/cuda/driver/find-devices.js';
import type { GpuHost, RecordedDevice } from '../runtime/device-choice.js';
import { deviceOf, deviceSchema, findSameDevice, requireSameKind } from './run-device.js';

const hostOf = (...names: readonly string[]): GpuHost => {
  const devices = names.map((name, ordinal) => ({
    ...{ ordinal, name, totalBytes: 80e9, computeCapability: [9, 0] as const },
  }));
  const search: DeviceSearch =
    devices.length > 0
      ? { devices }
      : { devices: [], reason: "NVIDIA's driver is missing: libcuda.so.1.", hint: 'Install one.' };
  return {
    defaultDevice: () => 'auto',
    hasDriver: () => true,
    find: () => Promise.resolve(search),
    freeBytes: () => Promise.reject(new Error('nobody should ask')),
  };
};

const onBeta = {
  kind: 'cuda',
  dtype: 'bfloat16',
  ordinal: 1,
  name: 'Beta',
} as const satisfies RecordedDevice;
const onCpu = { kind: 'cpu', dtype: 'float32' } as const satisfies RecordedDevice;

describe('the device of a run', () => {
  it('is read as it was written, and only so', () => {
    for (const device of [onBeta, onCpu]) expect(deviceSchema.parse(device)).toEqual(device);
    expect(deviceSchema.safeParse({ ...onCpu, dtype: 'bfloat16' }).success).toBe(false);
    expect(deviceSchema.safeParse({ ...onBeta, ordinal: -1 }).success).toBe(false);
    expect(deviceSchema.safeParse({ kind: 'cuda', dtype: 'float32' }).success).toBe(false);
  });

  it('is the CPU where nothing is recorded, and stays it beside GPUs', async () => {
    expect(deviceOf({})).toEqual(onCpu);
    expect(await findSameDevice({}, hostOf('Alpha'))).toEqual(onCpu);
    expect(await findSameDevice({ device: onCpu }, hostOf('Alpha'))).toEqual(onCpu);
  });

  it('is the GPU of the same name, at its old place if it can', async () => {
    expect(await findSameDevice({ device: onBeta }, hostOf('Beta', 'Beta'))).toEqual(onBeta);
    expect(await findSameDevice({ device: onBeta }, hostOf('Beta', 'Alpha'))).toEqual({
      ...onBeta,
      ordinal: 0,
    });
  });

  it.each([
    [hostOf('Alpha', 'Gamma'), /computes on Beta in bfloat16; this machine has Alpha, Gamma\.$/],
    [hostOf(), /Beta in bfloat16; no GPU can be used here: NVIDIA's driver is missing: libcuda\.so\.1\.$/],
  ])('is not replaced by another', async (host, pattern) => {
    const failure: unknown = await findSameDevice({ device: onBeta }, host).catch((cause: unknown) => cause);
    expect(failure).toBeInstanceOf(MistletoeError);
    expect((failure as MistletoeError).message).toMatch(pattern);
    expect((failure as MistletoeError).hint).toMatch(/start a new run/);
  });

  it('must be that of a runtime which a caller brings', () => {
    requireSameKind({ device: onBeta }, { name: 'cuda' });
    requireSameKind({}, { name: 'onnx' });
    requireSameKind({ device: onBeta }, { name: 'one of the caller’s own' });
    expect(() => {
      requireSameKind({ device: onCpu }, { name: 'cuda' });
    }).toThrow('The run computes on the CPU in float32; the given runtime is cuda.');
    expect(() => {
      requireSameKind({ device: onBeta }, { name: 'onnx' });
    }).toThrow('The run computes on Beta (cuda:1) in bfloat16; the given runtime is onnx.');
  });

  it('must not quantize', () => {
    expect(() => {
      requireSameKind({}, { name: 'onnx', quantization: 'int4' });
    }).toThrow('The given runtime has int4 weights; audits and training need float32 weights on the CPU.');
  });
});
