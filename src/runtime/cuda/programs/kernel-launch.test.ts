import { describe, expect, it } from 'vitest';
import { Driver } from '../driver/driver.js';
import { CudaModule, EarlyLaunch, LaunchArguments } from './kernel-launch.js';
import { fakeLibrary, fakeNative, write } from '../../../../test/support/runtime/cuda/fake-library.js';

const kernel = { name: 'add' };
/** 256 slots of 8 bytes lie before the pointers. */
const blockOf = ({ pointers }: LaunchArguments): bigint => pointers - 2048n;

describe('launch arguments', () => {
  /** Reads as C would: the pointer's place in the table, then what lies there. */
  function pack(values: readonly (bigint | number)[]): { address: bigint; integer: number }[] {
    const native = fakeNative();
    const packed = new LaunchArguments(native);
    const block = blockOf(packed);
    const memory = new DataView(native.view(block, 4096));
    packed.set({ kernel, arguments: values });
    return values.map((_, index) => {
      const pointer = memory.getBigUint64(Number(packed.pointers - block) + 8 * index, true);
      const place = Number(pointer - block);
      return { address: memory.getBigUint64(place, true), integer: memory.getInt32(place, true) };
    });
  }

  it('are addresses of 64 bits and integers of 32', () => {
    const packed = pack([0x7f12_3456_789a_bcden, -7, 2147483647, 0n]);
    expect(packed[0]!.address).toBe(0x7f12_3456_789a_bcden);
    expect([packed[1]!.integer, packed[2]!.integer]).toEqual([-7, 2147483647]);
    expect(packed[3]!.address).toBe(0n);
  });

  it('write over those of the launch before', () => {
    const native = fakeNative();
    const packed = new LaunchArguments(native);
    const memory = new DataView(native.view(blockOf(packed), 4096));
    packed.set({ kernel, arguments: [1n, 2n] });
    packed.set({ kernel, arguments: [3, 4n] });
    expect([memory.getInt32(0, true), memory.getBigUint64(8, true)]).toEqual([3, 4n]);
  });

  it.each([[1.5], [2147483648], [Number.NaN]])('refuse %d as an integer', (value) => {
    expect(() => pack([1, value])).toThrow(`Argument 1 of the kernel add is ${value}`);
  });

  it('are refused where there are too many', () => {
    expect(() => pack(Array<number>(257).fill(0))).toThrow('257 arguments; at most 256');
  });
});

it('a launch that starts early is described as the driver reads it', () => {
  const native = fakeNative();
  const early = new EarlyLaunch(native, 0xabcdn);
  early.set({ grid: [5, 6, 7], block: 128, sharedBytes: 64 });
  const memory = new DataView(native.view(early.configuration, 128));
  expect(Array.from({ length: 7 }, (_, at) => memory.getUint32(4 * at, true))).toEqual([
    5, 6, 7, 128, 1, 1, 64,
  ]);
  expect(memory.getBigUint64(32, true)).toBe(0xabcdn);
  const attributes = Number(memory.getBigUint64(40, true) - early.configuration);
  expect(memory.getUint32(48, true)).toBe(1);
  expect([memory.getUint32(attributes, true), memory.getUint32(attributes + 8, true)]).toEqual([6, 1]);
  early.dispose();
  expect(native.freed).toEqual([early.configuration]);
});

describe('a module of kernels', () => {
  const create = (status = 0): { module: CudaModule; calls: () => string[] } => {
    const library = fakeLibrary({
      cuDriverGetVersion: (version) => write(version, 12000),
      cuModuleLoadData: (module) => write(module, 11),
      cuModuleGetFunction: (found) => (status === 0 ? write(found, 22) : status),
    });
    const driver = new Driver(fakeNative(), library);
    const module = new CudaModule(driver, new Map([['add', new Uint8Array(8)]]), () => undefined);
    return { module, calls: () => library.calls.map(([name]) => name) };
  };

  it('finds a kernel once', () => {
    const { module, calls } = create();
    expect(module.kernel('add').handle).toBe(22n);
    expect(module.kernel('add')).toBe(module.kernel('add'));
    expect(calls().filter((name) => name === 'cuModuleGetFunction')).toHaveLength(1);
  });

  it('loads each kernel on its own and unloads all of them', () => {
    let handles = 10n;
    const library = fakeLibrary({
      cuDriverGetVersion: (version) => write(version, 12000),
      cuModuleLoadData: (module) => write(module, ++handles),
      cuModuleGetFunction: (found, module) => write(found, 2n * (module as bigint)),
    });
    const codes = new Map(['add', 'sum'].map((name) => [name, new Uint8Array(8)]));
    const module = new CudaModule(new Driver(fakeNative(), library), codes, () => undefined);
    expect([module.kernel('add').handle, module.kernel('sum').handle]).toEqual([22n, 24n]);
    module.unload();
    const unloaded = library.calls.filter(([name]) => name === 'cuModuleUnload');
    expect(unloaded.map(([, handle]) => handle)).toEqual([11n, 12n]);
  });

  it('says which kernel it lacks', () => {
    expect(() => create(500).module.kernel('add')).toThrow('The compiled source has no kernel add.');
  });

  it('is unloaded once', () => {
    const { module, calls } = create();
    module.unload();
    module.unload();
    expect(module.loaded).toBe(false);
    expect(calls().filter((name) => name === 'cuModuleUnload')).toHaveLength(1);
  });
});
