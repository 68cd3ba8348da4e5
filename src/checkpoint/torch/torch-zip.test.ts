import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { MistletoeError } from '../../core/errors.js';
import { readFloat32, readIntegers } from '../read-tensor.js';
import { encodeValues } from '../../../test/support/checkpoint/encode-values.js';
import { makeTemporaryFolder } from '../../../test/support/checkpoint/temporary-folder.js';
import {
  encodeTorchFile,
  joinTorchFile,
  writeTorchFile,
} from '../../../test/support/checkpoint/write-torch-file.js';
import { encodeZip } from '../../../test/support/checkpoint/write-zip.js';
import { readTorchHeader } from './torch-zip.js';
import type { Picklable } from '../../../test/support/checkpoint/encode-pickle.js';
import {
  encodePickle,
  pickleGlobal,
  pickleTensor,
  pickleTuple,
} from '../../../test/support/checkpoint/encode-pickle.js';

const folder = makeTemporaryFolder();
afterAll(folder.remove);
const path = join(folder.path, 'x.pt');

const twelve = encodeValues({ dtype: 'F32', shape: [12], values: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11] });
const whole = pickleTensor({ dtype: 'F32', key: '0', elements: 12, shape: [3, 4] });

function writeValue(value: Picklable, storages: Record<string, Uint8Array> = { 0: twelve }): void {
  writeFileSync(path, joinTorchFile('x', encodePickle(value), storages));
}

async function readNames(): Promise<string[]> {
  return (await readTorchHeader(path)).map(({ name }) => name);
}

async function readFloats(): Promise<Record<string, number[]>> {
  const values: Record<string, number[]> = {};
  for (const tensor of await readTorchHeader(path))
    values[tensor.name] = Array.from(await readFloat32(tensor));
  return values;
}

describe('readTorchHeader', () => {
  it.each([false, true])('reads back every dtype (zip64: %s)', async (zip64) => {
    const tensors = {
      f32: { dtype: 'F32', shape: [2], values: [1, -2] },
      f16: { dtype: 'F16', shape: [1, 2], values: [0.5, 2048] },
      bf16: { dtype: 'BF16', shape: [2], values: [1, -3] },
      f64: { dtype: 'F64', shape: [], values: [0.125] },
      i64: { dtype: 'I64', shape: [2], values: [-5, 6] },
      i32: { dtype: 'I32', shape: [1], values: [9] },
      u8: { dtype: 'U8', shape: [1], values: [200] },
      bool: { dtype: 'BOOL', shape: [3], values: [1, 0, 1] },
      empty: { dtype: 'F32', shape: [0, 3], values: [] },
    } as const;
    writeFileSync(path, encodeTorchFile('archive', tensors, { zip64 }));
    const found = await readTorchHeader(path);
    expect(found.map(({ name, dtype, shape }) => [name, dtype, shape])).toEqual(
      Object.entries(tensors).map(([name, { dtype, shape }]) => [name, dtype, shape]),
    );
    for (const tensor of found) {
      const isInteger = ['I64', 'I32', 'U8', 'BOOL'].includes(tensor.dtype);
      const values = isInteger ? await readIntegers(tensor) : await readFloat32(tensor);
      expect(Array.from(values)).toEqual(tensors[tensor.name as keyof typeof tensors].values);
    }
  });

  it('honours strides, offsets and shared storages', async () => {
    const view = { dtype: 'F32', key: '0', elements: 12 } as const;
    writeValue(
      new Map<string, Picklable>([
        ['whole', whole],
        ['alias', whole],
        ['transposed', pickleTensor({ ...view, shape: [4, 3], strides: [1, 4] })],
        ['slice', pickleTensor({ ...view, offset: 5, shape: [2, 2], strides: [4, 1] })],
        ['column', pickleTensor({ ...view, offset: 3, shape: [3], strides: [4] })],
        ['cube', pickleTensor({ ...view, shape: [2, 3, 2], strides: [2, 4, 1] })],
      ]),
    );
    expect(await readFloats()).toEqual({
      whole: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11],
      alias: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11],
      transposed: [0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11],
      slice: [5, 6, 9, 10],
      column: [3, 7, 11],
      cube: [0, 1, 4, 5, 8, 9, 2, 3, 6, 7, 10, 11],
    });
  });

  it('reads parameters and the _metadata of a module state dict', async () => {
    const parameter: Picklable = {
      call: pickleGlobal('torch._utils', '_rebuild_parameter'),
      parameters: pickleTuple(whole, true, null),
    };
    const dict = encodePickle(new Map([['w', parameter]])).subarray(0, -1);
    const state = encodePickle(new Map([['_metadata', new Map([['', new Map([['version', 1]])]])]])).subarray(
      2,
      -1,
    );
    const pickle = Buffer.concat([dict, state, Buffer.from('b.')]);
    writeFileSync(path, joinTorchFile('x', pickle, { 0: twelve }));
    expect(await readNames()).toEqual(['w']);
  });

  it('unwraps one obvious wrapper and refuses to guess among several', async () => {
    const inner = new Map([['w', whole]]);
    writeValue(
      new Map<string, Picklable>([
        ['epoch', 3],
        ['state_dict', inner],
      ]),
    );
    expect(await readNames()).toEqual(['w']);
    writeValue(
      new Map([
        ['state_dict', inner],
        ['model', inner],
      ]),
    );
    await expect(readNames()).rejects.toThrow(/"state_dict" and "model"/);
    writeValue(new Map([['something', inner]]));
    await expect(readNames()).rejects.toThrow(/no dict of tensors/);
    writeValue(
      new Map<string, Picklable>([
        ['w', whole],
        ['model', inner],
      ]),
    );
    await expect(readNames()).rejects.toThrow(/holds tensors and, under "model"/);
    writeValue(new Map<number, Picklable>([[1, whole]]));
    await expect(readNames()).rejects.toThrow(/names a tensor 1/);
    writeValue([whole]);
    await expect(readNames()).rejects.toThrow(/does not hold a dict/);
  });

  it('never runs what a pickle asks for', async () => {
    const witness = join(folder.path, 'witness');
    for (const [module, name] of [
      ['os', 'system'],
      ['posix', 'system'],
      ['builtins', 'eval'],
      ['torch', 'load'],
      ['torch._utils', '_rebuild_tensor_v2.__globals__'],
    ] as const) {
      const call = { call: pickleGlobal(module, name), parameters: pickleTuple(`touch ${witness}`) };
      writeValue(
        new Map<string, Picklable>([
          ['w', whole],
          ['x', call],
        ]),
      );
      const failure: unknown = await readNames().catch((cause: unknown) => cause);
      expect(failure).toBeInstanceOf(MistletoeError);
      expect((failure as Error).message).toContain(
        `asks for ${module}.${name}, which is not a tensor, dict or list`,
      );
    }
    expect(existsSync(witness)).toBe(false);
  });

  it.each([
    ['INST', Buffer.from('(ios\nsystem\n.'), /opcode 0x69/],
    ['OBJ', Buffer.from('(o.'), /opcode 0x6f/],
    ['NEWOBJ', Buffer.from('N)\x81.', 'latin1'), /opcode 0x81/],
    ['EXT1', Buffer.from([0x82, 1, 0x2e]), /opcode 0x82/],
    ['a dict called as a function', Buffer.from('})R.'), /calls something that is no global/],
    ['BUILD with other attributes', Buffer.from('}}X\x01\0\0\0aNsb.'), /only _metadata/],
    [
      'a string longer than the file',
      Buffer.from('X\xff\xff\xff\x7f', 'latin1'),
      /bytes from 5 on are needed/,
    ],
    ['an endless global', Buffer.from(`c${'a'.repeat(5000)}`), /does not end/],
    ['an unknown memo entry', Buffer.from('h\x07.'), /memo entry 7/],
    ['half a million containers', Buffer.from(`${']'.repeat(600_000)}.`), /more than 500000 objects/],
    ['a very deep stack', Buffer.from(`${'N'.repeat(1_100_000)}.`), /more than 1000000 stack/],
    ['an empty pickle', Buffer.alloc(0), /ends at byte 0/],
    ['a huge integer', Buffer.concat([Buffer.from([0x8a, 200]), Buffer.alloc(200)]), /integer of 200 bytes/],
  ])('refuses %s', async (_, pickle, message) => {
    writeFileSync(path, joinTorchFile('x', pickle, {}));
    const failure: unknown = await readNames().catch((cause: unknown) => cause);
    expect(failure).toBeInstanceOf(MistletoeError);
    expect((failure as Error).message).toMatch(message);
  });

  it('refuses tensors that do not fit their storage', async () => {
    const view = { dtype: 'F32', key: '0', elements: 12, shape: [12] } as const;
    const refusals: [Picklable, RegExp][] = [
      [pickleTensor({ ...view, offset: 1 }), /reaches element 13/],
      [pickleTensor({ ...view, shape: [3], strides: [6] }), /reaches element 13/],
      [pickleTensor({ ...view, shape: [2 ** 40, 2 ** 10], strides: [0, 0] }), /only 12 elements/],
      [pickleTensor({ ...view, shape: [2 ** 31, 2 ** 31] }), /only 12 elements/],
      [pickleTensor({ ...view, shape: [2], strides: [2 ** 53 - 1] }), /reaches element/],
      [pickleTensor({ ...view, elements: 13 }), /13 elements of F32 were announced/],
      [pickleTensor({ ...view, key: '7' }), /no entry "x\/data\/7"/],
      [pickleTensor({ ...view, key: '../../data/0' }), /no entry/],
      [pickleTensor({ ...view, shape: [3, 4], strides: [1] }), /malformed/],
      [pickleTensor({ ...view, shape: [-1] }), /malformed|for a shape/],
    ];
    for (const [tensor, message] of refusals) {
      writeValue(new Map([['w', tensor]]));
      await expect(readNames()).rejects.toThrow(message);
    }
  });

  it('names the remedy for other formats', async () => {
    writeFileSync(path, Buffer.from('8002 8a0a 6cfc 9c46 f920 6aa8 5019 2e80'.replaceAll(' ', ''), 'hex'));
    const failure: unknown = await readNames().catch((cause: unknown) => cause);
    expect((failure as MistletoeError).message).toMatch(/before torch 1\.6/);
    expect((failure as MistletoeError).hint).toMatch(/torch\.save/);
    writeFileSync(path, 'hello');
    await expect(readNames()).rejects.toThrow(/does not begin with "PK"/);
    writeFileSync(path, encodeZip([['a/other', Buffer.from('x')]]));
    await expect(readNames()).rejects.toThrow(/0 data.pkl entries/);
    writeFileSync(
      path,
      encodeZip([
        ['a/data.pkl', Buffer.from('N.')],
        ['a/byteorder', Buffer.from('big')],
      ]),
    );
    await expect(readNames()).rejects.toThrow(/byte order "big"/);
  });

  it('refuses compressed entries and headers that disagree with the directory', async () => {
    const good = encodeTorchFile('x', { w: { dtype: 'F32', shape: [1], values: [1] } });
    const central = good.indexOf(Buffer.from('PK\x01\x02', 'latin1'));
    const compressed = Buffer.from(good);
    compressed.writeUInt16LE(8, central + 10);
    writeFileSync(path, compressed);
    await expect(readNames()).rejects.toThrow(/compressed or encrypted/);
    const renamed = Buffer.from(good);
    renamed.write('y', 30);
    writeFileSync(path, renamed);
    await expect(readNames()).rejects.toThrow(/is called "y\/data.pkl" in its own header/);
    writeFileSync(path, good.subarray(0, -1));
    await expect(readNames()).rejects.toThrow(/end record is missing/);
  });

  it('is what writeTorchFile writes', async () => {
    writeTorchFile(path, { w: { dtype: 'BF16', shape: [2], values: [1, 2] } });
    expect(await readFloats()).toEqual({ w: [1, 2] });
  });
});
