import { describe, expect, it } from 'vitest';
import { Driver } from './driver.js';
import { Staging } from './staging.js';
import type { FakeLibrary, Handlers } from '../../../../test/support/runtime/cuda/fake-library.js';
import { fakeLibrary, fakeNative, write } from '../../../../test/support/runtime/cuda/fake-library.js';

const slot = 8 << 20;

function create(changes: Handlers = {}): { staging: Staging; library: FakeLibrary; names: () => string[] } {
  let made = 1n << 40n;
  const next = (target: Parameters<typeof write>[0]): 0 => write(target, (made += 1n << 32n));
  const library = fakeLibrary({
    cuDriverGetVersion: (version) => write(version, 13000),
    cuMemAllocHost_v2: next,
    cuEventCreate: next,
    ...changes,
  });
  const staging = new Staging(new Driver(fakeNative(), library), fakeNative(), 5n);
  return { staging, library, names: () => library.calls.map(([name]) => name) };
}

const copies = ({ calls }: FakeLibrary): unknown[][] =>
  calls.filter(([name]) => name === 'cuMemcpyHtoDAsync_v2').map(([, ...values]) => values);

describe('uploads', () => {
  it('share pinned memory, one behind the other', () => {
    const { staging, library } = create();
    staging.upload(0x1000n, new Uint8Array(300));
    staging.upload(0x2000n, new Uint8Array(4));
    const [[to, first, bytes] = [], [, second] = []] = copies(library);
    expect([to, bytes]).toEqual([0x1000n, 300]);
    expect((second as bigint) - (first as bigint)).toBe(512n);
  });

  it('are cut into pieces where they are large, and wait before memory is filled again', () => {
    const { staging, library, names } = create();
    staging.upload(0x1000n, new Uint8Array(3 * slot));
    expect(names()).not.toContain('cuEventSynchronize');
    staging.upload(0x1000n, new Uint8Array(slot + 1));
    expect(names().filter((name) => name === 'cuEventSynchronize')).toHaveLength(2);
    expect(names().filter((name) => name === 'cuMemAllocHost_v2')).toHaveLength(3);
    const pieces = copies(library).map(([to, , bytes]) => [Number(to) - 0x1000, bytes]);
    expect(pieces).toEqual([
      [0, slot],
      [slot, slot],
      [2 * slot, slot],
      [0, slot],
      [slot, 1],
    ]);
  });
});

describe('downloads', () => {
  it('are asked for at once and copied out when their event has passed', () => {
    const statuses = [600, 600, 0];
    const { staging, names } = create({ cuEventQuery: () => statuses.shift()! });
    const { event, finish } = staging.download(0x1000n, new Uint8Array(10));
    expect(names().slice(-3)).toEqual(['cuMemcpyDtoHAsync_v2', 'cuEventCreate', 'cuEventRecord']);
    expect([1, 2, 3].map(() => staging.passed(event))).toEqual([false, false, true]);
    finish();
    staging.download(0x1000n, new Uint8Array(60_000));
    expect(names().filter((name) => name === 'cuMemAllocHost_v2')).toHaveLength(1);
    expect(names().filter((name) => name === 'cuEventCreate')).toHaveLength(1);
  });

  it('do not share memory while they are under way', () => {
    const { staging, names } = create();
    staging.download(0x1000n, new Uint8Array(10));
    staging.download(0x1000n, new Uint8Array(10));
    expect(names().filter((name) => name === 'cuMemAllocHost_v2')).toHaveLength(2);
  });

  it('report what went wrong before them', () => {
    const { staging } = create({ cuEventQuery: () => 700, cuGetErrorName: () => 1 });
    const { event } = staging.download(0x1000n, new Uint8Array(10));
    expect(() => staging.passed(event)).toThrow('cuEventQuery failed: status 700.');
  });

  it('give very large memory back', () => {
    const { staging, names } = create();
    staging.download(0x1000n, new Uint8Array((64 << 20) + 1)).finish();
    expect(names()).toContain('cuMemFreeHost');
  });
});
