import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { MistletoeError } from '../core/errors.js';
import type { Device } from './cuda/driver/device.js';
import { WaitingDevice } from './device-choice.js';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const log: string[] = [];
const refuse = (): never => {
  throw new MistletoeError('runtime', 'Nothing is asked of it here.');
};
let memory: () => number = () => 1000;

const openDevice = (ordinal: number): Promise<Device> => {
  log.push(`open ${ordinal}`);
  return Promise.resolve({
    ...{ name: `GPU ${ordinal}`, computeCapability: [9, 0] as const, totalBytes: 2000 },
    freeBytes: () => memory(),
    ...{ allocate: refuse, free: refuse, upload: refuse, download: refuse, copy: refuse, clear: refuse },
    ...{ compile: refuse, launch: refuse, multiply: refuse, record: refuse, replay: refuse },
    synchronize: refuse,
    dispose: () => void log.push(`close ${ordinal}`),
  });
};

describe('a GPU that was asked for its memory', () => {
  beforeEach(() => {
    log.length = 0;
    memory = () => 1000;
  });

  it('is opened once for asking and computing', async () => {
    const waiting = new WaitingDevice(openDevice);
    expect(await waiting.freeBytes(0)).toBe(1000);
    expect(await waiting.freeBytes(0)).toBe(1000);
    expect((await waiting.open(0)).name).toBe('GPU 0');
    await vi.runAllTimersAsync();
    expect(log).toEqual(['open 0']);
  });

  it('belongs to the first who opens it', async () => {
    const waiting = new WaitingDevice(openDevice);
    await waiting.freeBytes(0);
    const first = await waiting.open(0);
    expect(await waiting.open(0)).not.toBe(first);
    expect(log).toEqual(['open 0', 'open 0']);
  });

  it('is closed where another one is opened', async () => {
    const waiting = new WaitingDevice(openDevice);
    await waiting.freeBytes(0);
    await waiting.open(1);
    expect(log).toEqual(['open 0', 'close 0', 'open 1']);
  });

  it('is closed where nobody comes, and where it cannot tell', async () => {
    const waiting = new WaitingDevice(openDevice);
    await waiting.freeBytes(0);
    await vi.runAllTimersAsync();
    expect(log).toEqual(['open 0', 'close 0']);
    memory = refuse;
    await expect(waiting.freeBytes(1)).rejects.toThrow('Nothing is asked');
    expect(log).toEqual(['open 0', 'close 0', 'open 1', 'close 1']);
  });
});
