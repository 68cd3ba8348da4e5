import { describe, expect, it } from 'vitest';
import { MistletoeError } from '../core/errors.js';
import { createRuntime } from './create-runtime.js';
import type { DeviceSearch, FoundDevice } from './cuda/driver/find-devices.js';
import type { DeviceChoice, DeviceWish, GpuHost } from './device-choice.js';
import { chooseDevice, keepIfRoom, nameDevice, recordDevice } from './device-choice.js';

const gpu = (ordinal: number, name: string, major = 9): FoundDevice => ({
  ...{ ordinal, name, totalBytes: 80e9, computeCapability: [major, 0] },
});

const none: DeviceSearch = {
  devices: [],
  reason: 'NVRTC is missing: libnvrtc.so.13.',
  hint: 'Install the toolkit.',
};

interface FakeHost extends GpuHost {
  searches: number;
}

function createHost(search: DeviceSearch, more: Partial<GpuHost> = {}): FakeHost {
  const host: FakeHost = {
    searches: 0,
    defaultDevice: () => 'auto',
    hasDriver: () => true,
    find() {
      host.searches += 1;
      return Promise.resolve(search);
    },
    freeBytes: () => Promise.resolve(10e9),
    ...more,
  };
  return host;
}

const twoGpus: DeviceSearch = { devices: [gpu(0, 'Alpha'), gpu(1, 'Beta')] };

async function refusal(choosing: Promise<unknown>): Promise<string> {
  const failure = await choosing.then(
    () => undefined,
    (cause: unknown) => cause,
  );
  expect(failure).toBeInstanceOf(MistletoeError);
  const { code, message, hint } = failure as MistletoeError;
  expect(code).toBe('usage');
  return `${message} ${hint ?? ''}`;
}

describe('chooseDevice', () => {
  it('looks for nothing where the CPU is asked for, or where there is no driver', async () => {
    const host = createHost(twoGpus);
    expect(await chooseDevice({ device: 'cpu' }, host)).toEqual({ kind: 'cpu', dtype: 'float32' });
    const bare = createHost(twoGpus, { hasDriver: () => false });
    for (const wish of [{}, { device: 'auto' }, { device: 'auto', dtype: 'float32' }] satisfies DeviceWish[])
      expect(await chooseDevice(wish, bare)).toEqual({ kind: 'cpu', dtype: 'float32' });
    expect([host.searches, bare.searches]).toEqual([0, 0]);
  });

  it.each([
    [{}, { ordinal: 0, name: 'Alpha', dtype: 'bfloat16', isAutomatic: true }],
    [{ dtype: 'float32' }, { ordinal: 0, dtype: 'float32', isAutomatic: true }],
    [{ dtype: 'float16' }, { ordinal: 0, dtype: 'float16', isAutomatic: false }],
    [{ device: 'cuda' }, { ordinal: 0, dtype: 'bfloat16', isAutomatic: false }],
    [
      { device: 'cuda:1', dtype: 'float32' },
      { ordinal: 1, name: 'Beta', dtype: 'float32' },
    ],
  ] satisfies [DeviceWish, object][])('takes for %o', async (wish, expected) => {
    expect(await chooseDevice(wish, createHost(twoGpus))).toMatchObject({ kind: 'cuda', ...expected });
  });

  it('takes what the environment names where nobody else does', async () => {
    const host = createHost(twoGpus, { defaultDevice: () => 'cpu' });
    expect(await chooseDevice({}, host)).toEqual({ kind: 'cpu', dtype: 'float32' });
    expect(await chooseDevice({ device: 'auto' }, host)).toMatchObject({ kind: 'cuda' });
    const mistyped = createHost(twoGpus, { defaultDevice: () => 'gpu' });
    expect(await refusal(chooseDevice({}, mistyped))).toMatch(/"gpu".*MISTLETOE_DEVICE/);
  });

  it('looks for a GPU that is asked for by name, driver or not', async () => {
    const host = createHost(twoGpus, { hasDriver: () => false });
    expect(await chooseDevice({ device: 'cuda' }, host)).toMatchObject({ kind: 'cuda' });
  });

  it('falls back to the CPU and says why, where there is a driver', async () => {
    const choice = await chooseDevice({}, createHost(none));
    expect(choice).toEqual({
      ...{ kind: 'cpu', dtype: 'float32' },
      reason: 'Runs on the CPU. NVRTC is missing: libnvrtc.so.13. Install the toolkit.',
    });
  });

  it('computes in float32 on GPUs that have no bfloat16', async () => {
    const old = createHost({ devices: [gpu(0, 'Turing', 7)] });
    expect(await chooseDevice({}, old)).toMatchObject({ kind: 'cuda', dtype: 'float32' });
    expect(await chooseDevice({ dtype: 'float16' }, old)).toMatchObject({ dtype: 'float16' });
    expect(await refusal(chooseDevice({ dtype: 'bfloat16' }, old))).toMatch(
      /bfloat16, which Turing \(compute capability 7\.0\) does not have.*float16 or float32/,
    );
  });

  it.each([
    [{ device: 'gpu' }, twoGpus, /"gpu"; auto, cpu, cuda or cuda:N was expected/],
    [{ device: 'cuda:' }, twoGpus, /"cuda:"/],
    [{ device: 'cuda:-1' }, twoGpus, /"cuda:-1"/],
    [{ device: 'CPU' }, twoGpus, /"CPU"/],
    [{ device: 'cuda:7' }, twoGpus, /no GPU cuda:7; this machine has cuda:0 \(Alpha\), cuda:1 \(Beta\)/],
    [
      { device: 'cuda' },
      none,
      /no GPU can be used: NVRTC is missing: .*Install the toolkit\. Without --device/,
    ],
    [
      { device: 'cpu', dtype: 'bfloat16' },
      twoGpus,
      /--dtype is bfloat16; the CPU has float32, int8 and int4/,
    ],
    [{ dtype: 'float16' }, none, /NVRTC is missing.*--dtype is float16; the CPU has float32, int8 and int4/],
  ] satisfies [DeviceWish, DeviceSearch, RegExp][])('refuses %o', async (wish, search, pattern) => {
    expect(await refusal(chooseDevice(wish, createHost(search)))).toMatch(pattern);
  });

  it('refuses a type that only GPUs have where there is no driver', async () => {
    const host = createHost(twoGpus, { hasDriver: () => false });
    expect(await refusal(chooseDevice({ dtype: 'bfloat16' }, host))).toMatch(/no NVIDIA driver/);
  });
});

describe('keepIfRoom', () => {
  const count =
    (bytes: number): (() => Promise<number>) =>
    () =>
      Promise.resolve(bytes);
  const choose = (wish: DeviceWish): Promise<DeviceChoice> => chooseDevice(wish, createHost(twoGpus));

  it('keeps a GPU with room, and counts bytes in its type', async () => {
    const choice = await choose({});
    const types: string[] = [];
    const countBytes = (dtype: string): Promise<number> => {
      types.push(dtype);
      return Promise.resolve(10e9);
    };
    expect(await keepIfRoom(choice, countBytes, createHost(twoGpus))).toBe(choice);
    expect(types).toEqual(['bfloat16']);
  });

  it('gives up one without room only where nobody asked for it', async () => {
    const host = createHost(twoGpus);
    expect(await keepIfRoom(await choose({}), count(10e9 + 1), host)).toEqual({
      ...{ kind: 'cpu', dtype: 'float32' },
      reason: 'Runs on the CPU: Alpha has 10.0 GB free, and the model needs 10.0 GB in bfloat16.',
    });
    const named = await choose({ device: 'cuda' });
    expect(await keepIfRoom(named, count(1e12), host)).toBe(named);
    const typed = await choose({ dtype: 'bfloat16' });
    expect(await keepIfRoom(typed, count(1e12), host)).toBe(typed);
  });

  it('gives up one that cannot be opened', async () => {
    const host = createHost(twoGpus, { freeBytes: () => Promise.reject(new Error('busy')) });
    expect(await keepIfRoom(await choose({}), count(0), host)).toMatchObject({
      kind: 'cpu',
      reason: 'Runs on the CPU: Alpha cannot be opened: busy.',
    });
  });
});

it('names devices and records what decides the numbers', async () => {
  const chosen = await chooseDevice({ device: 'cuda:1' }, createHost(twoGpus));
  expect(nameDevice(chosen)).toBe('Beta (cuda:1) in bfloat16');
  expect(recordDevice(chosen)).toEqual({ kind: 'cuda', dtype: 'bfloat16', ordinal: 1, name: 'Beta' });
  const fallen = await chooseDevice({}, createHost(none));
  expect(nameDevice(fallen)).toBe('the CPU in float32');
  expect(recordDevice(fallen)).toEqual({ kind: 'cpu', dtype: 'float32' });
});

describe('createRuntime', () => {
  it('is ONNX Runtime on the CPU, also where a GPU has no room', async () => {
    for (const options of [{ device: 'cpu' }, { countBytes: () => Promise.resolve(1e12) }]) {
      const runtime = await createRuntime({ threads: 1, ...options }, createHost(twoGpus));
      expect(runtime.name).toBe('onnx');
      await runtime.dispose();
    }
  });

  it('refuses what cannot be had', async () => {
    expect(await refusal(createRuntime({ device: 'cuda:2' }, createHost(twoGpus)))).toMatch(/no GPU cuda:2/);
  });
});
