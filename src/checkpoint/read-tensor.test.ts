import { truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { floatDecoders } from './element-decoding.js';
import { readFloat32, readIntegers, readRows } from './read-tensor.js';
import { readSafetensorsHeader } from './safetensors/safetensors.js';
import type { StoredTensor } from './stored-tensor.js';
import { roundToBfloat16, roundToHalf } from '../../test/support/checkpoint/encode-values.js';
import { makeTemporaryFolder } from '../../test/support/checkpoint/temporary-folder.js';
import { writeSafetensors } from '../../test/support/checkpoint/write-safetensors.js';

const folder = makeTemporaryFolder();
afterAll(folder.remove);

/** The value of a half float by its definition, for all that are numbers. */
function halfByDefinition(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >>> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 31) return fraction === 0 ? sign * Infinity : NaN;
  return exponent === 0 ? sign * fraction * 2 ** -24 : sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

function decodeAll(dtype: 'F16' | 'BF16'): Float32Array {
  const raw = new Uint8Array(Uint16Array.from({ length: 65536 }, (_, index) => index).buffer);
  const target = new Float32Array(65536);
  floatDecoders[dtype](raw, target, 0, 65536);
  return target;
}

describe('float decoding', () => {
  it('is right for every half float', () => {
    const target = decodeAll('F16');
    expect(target.every((value, bits) => Object.is(value, halfByDefinition(bits)))).toBe(true);
    expect(target.every((value, bits) => Number.isNaN(value) || roundToHalf(value) === bits)).toBe(true);
  });

  it('is right for every bfloat16', () => {
    const target = decodeAll('BF16');
    expect(target.every((value, bits) => Number.isNaN(value) || roundToBfloat16(value) === bits)).toBe(true);
    expect([target[0x3f80], target[0xc040], target[0x7f80]]).toEqual([1, -3, Infinity]);
  });
});

async function write(
  name: string,
  tensor: Parameters<typeof writeSafetensors>[1][string],
): Promise<StoredTensor> {
  const path = join(folder.path, `${name}.safetensors`);
  writeSafetensors(path, { [name]: tensor });
  return (await readSafetensorsHeader(path))[0]!;
}

describe('reading', () => {
  it('crosses chunk borders', async () => {
    const values = Float32Array.from({ length: 1_100_001 }, (_, index) => index % 251);
    const tensor = await write('large', { dtype: 'F32', shape: [values.length], values });
    const read = await readFloat32(tensor);
    expect(read.length).toBe(values.length);
    expect(read.every((value, index) => value === values[index])).toBe(true);
  });

  it('gives rows in order and once each', async () => {
    const values = Float32Array.from({ length: 700 * 3001 }, (_, index) => index);
    const tensor = await write('rows', { dtype: 'F32', shape: [7, 100, 3001], values });
    let next = 0;
    let blocks = 0;
    for await (const block of readRows(tensor)) {
      expect(block.firstRow * 3001).toBe(next);
      expect(block.values.length % 3001).toBe(0);
      expect(block.values.every((value, index) => value === next + index)).toBe(true);
      next += block.values.length;
      blocks += 1;
    }
    expect(next).toBe(values.length);
    expect(blocks).toBeGreaterThan(1);
  });

  it('refuses the wrong kind of dtype and integers beyond 32 bits', async () => {
    const wide = await write('wide', { dtype: 'I64', shape: [2], values: [1, 2 ** 31] });
    await expect(readIntegers(wide)).rejects.toThrow(/holds 2147483648, which does not fit/);
    await expect(readFloat32(wide)).rejects.toThrow(/dtype I64, expected a float type/);
    const low = await write('low', { dtype: 'I64', shape: [1], values: [-(2 ** 31) - 1] });
    await expect(readIntegers(low)).rejects.toThrow(/holds -2147483649/);
    const float = await write('float', { dtype: 'F32', shape: [1], values: [1] });
    await expect(readIntegers(float)).rejects.toThrow(/dtype F32, expected an integer/);
  });

  it('notices a file that shrank after it was opened', async () => {
    const tensor = await write('shrunk', { dtype: 'F32', shape: [4], values: [1, 2, 3, 4] });
    truncateSync(tensor.file, tensor.offsetBytes + 8);
    await expect(readFloat32(tensor)).rejects.toThrow(/changed|has \d+ bytes/);
    await expect(readRows(tensor).next()).rejects.toThrow(/ends at byte/);
  });

  it('gathers strided views larger than a chunk', async () => {
    const [rows, columns] = [1500, 1100];
    const file = join(folder.path, 'strided.bin');
    writeFileSync(
      file,
      new Uint8Array(Float32Array.from({ length: rows * columns }, (_, index) => index).buffer),
    );
    const shape = [columns, rows];
    const strides = [1, columns];
    const tensor: StoredTensor = {
      name: 't',
      dtype: 'F32',
      shape,
      strides,
      file,
      offsetBytes: 0,
      sizeBytes: rows * columns * 4,
    };
    const read = await readFloat32(tensor);
    let wrong = 0;
    read.forEach((value, index) => {
      if (value !== (index % rows) * columns + Math.floor(index / rows)) wrong += 1;
    });
    expect(wrong).toBe(0);
    let seen = 0;
    for await (const { values, firstRow } of readRows(tensor)) {
      expect(values[0]).toBe(firstRow);
      seen += values.length;
    }
    expect(seen).toBe(read.length);
  });

  it('takes little memory for a view that spans much', async () => {
    const file = join(folder.path, 'sparse.bin');
    writeFileSync(file, '');
    const [rows, step] = [64, 2 ** 22];
    truncateSync(file, rows * step * 4); // 1 GiB that takes no room
    const tensor: StoredTensor = {
      name: 't',
      dtype: 'F32',
      shape: [rows, 2],
      strides: [step, 1],
      file,
      offsetBytes: 0,
      sizeBytes: ((rows - 1) * step + 2) * 4,
    };
    const before = process.memoryUsage().arrayBuffers;
    expect(await readFloat32(tensor)).toEqual(new Float32Array(2 * rows));
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(64 * 2 ** 20);
  });

  it('gathers any strided view as its definition says', async () => {
    const file = join(folder.path, 'view.bin');
    writeFileSync(
      file,
      Uint8Array.from({ length: 256 }, (_, index) => index),
    );
    const axis = fc.tuple(fc.integer({ min: 1, max: 4 }), fc.integer({ min: 0, max: 20 }));
    await fc.assert(
      fc.asyncProperty(fc.array(axis, { minLength: 1, maxLength: 3 }), async (axes) => {
        const shape = axes.map(([size]) => size);
        const strides = axes.map(([, stride]) => stride);
        const sizeBytes = axes.reduce((sum, [size, stride]) => sum + (size - 1) * stride, 1);
        const tensor: StoredTensor = {
          name: 'v',
          dtype: 'U8',
          shape,
          strides,
          file,
          offsetBytes: 3,
          sizeBytes,
        };
        let expected = [3];
        for (const [size, stride] of axes) {
          expected = expected.flatMap((base) =>
            Array.from({ length: size }, (_, index) => base + index * stride),
          );
        }
        expect(Array.from(await readIntegers(tensor))).toEqual(expected);
      }),
      { seed: 7, numRuns: 100 },
    );
  });
});
