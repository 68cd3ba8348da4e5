import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { MistletoeError } from '../../core/errors.js';
import { readFloat32, readIntegers } from '../read-tensor.js';
import { readSafetensorsHeader } from './safetensors.js';
import { makeTemporaryFolder } from '../../../test/support/checkpoint/temporary-folder.js';
import {
  encodeSafetensors,
  joinSafetensors,
  writeSafetensors,
} from '../../../test/support/checkpoint/write-safetensors.js';

const folder = makeTemporaryFolder();
afterAll(folder.remove);
const path = join(folder.path, 'x.safetensors');

async function failureOf(header: string, data: Uint8Array): Promise<string> {
  writeFileSync(path, joinSafetensors(header, data));
  return readSafetensorsHeader(path).then(
    () => 'no failure',
    (failure: unknown) => {
      expect(failure).toBeInstanceOf(MistletoeError);
      expect((failure as MistletoeError).code).toBe('checkpoint');
      expect((failure as MistletoeError).hint).toBeTruthy();
      return (failure as MistletoeError).message;
    },
  );
}

function entry(dtype: unknown, shape: unknown, offsets: unknown): string {
  return JSON.stringify({ dtype, shape, data_offsets: offsets });
}

describe('readSafetensorsHeader', () => {
  it('reads back every dtype, scalars and empty tensors', async () => {
    writeSafetensors(path, {
      f32: { dtype: 'F32', shape: [2, 2], values: [1.5, -2, 3e-40, 4] },
      f16: { dtype: 'F16', shape: [3], values: [0.5, -65504, 2 ** -24] },
      bf16: { dtype: 'BF16', shape: [2], values: [-1, 3] },
      f64: { dtype: 'F64', shape: [], values: [0.25] },
      i64: { dtype: 'I64', shape: [2], values: [-7, 2 ** 31 - 1] },
      i32: { dtype: 'I32', shape: [1], values: [-(2 ** 31)] },
      u8: { dtype: 'U8', shape: [2], values: [0, 255] },
      bool: { dtype: 'BOOL', shape: [2], values: [1, 0] },
      empty: { dtype: 'F32', shape: [0, 5], values: [] },
    });
    const tensors = new Map((await readSafetensorsHeader(path)).map((tensor) => [tensor.name, tensor]));
    const floats = async (name: string) => Array.from(await readFloat32(tensors.get(name)!));
    const integers = async (name: string) => Array.from(await readIntegers(tensors.get(name)!));
    expect(await floats('f32')).toEqual([1.5, -2, Math.fround(3e-40), 4]);
    expect(await floats('f16')).toEqual([0.5, -65504, 2 ** -24]);
    expect(await floats('bf16')).toEqual([-1, 3]);
    expect(await floats('f64')).toEqual([0.25]);
    expect(tensors.get('f64')!.shape).toEqual([]);
    expect(await integers('i64')).toEqual([-7, 2 ** 31 - 1]);
    expect(await integers('i32')).toEqual([-(2 ** 31)]);
    expect(await integers('u8')).toEqual([0, 255]);
    expect(await integers('bool')).toEqual([1, 0]);
    expect(await floats('empty')).toEqual([]);
    expect(tensors.get('empty')!.shape).toEqual([0, 5]);
  });

  it.each([
    ['names an unknown dtype', `{"a":${entry('F8_E4M3', [1], [0, 1])}}`, 1, /"F8_E4M3", expected one of F64/],
    [
      'refuses a size that does not fit',
      `{"a":${entry('F32', [3], [0, 8])}}`,
      8,
      /has 8 bytes, but F32 \[3\] needs 12/,
    ],
    ['refuses offsets past the end', `{"a":${entry('F32', [3], [0, 12])}}`, 8, /truncated/],
    ['refuses reversed offsets', `{"a":${entry('F32', [0], [8, 0])}}`, 8, /no valid data_offsets/],
    [
      'refuses fractional offsets',
      `{"a":${entry('U8', [1], [0.5, 1.5])}}`,
      8,
      /has the number 0\.5, expected digits/,
    ],
    [
      'refuses a negative dimension',
      `{"a":${entry('U8', [-1, -8], [0, 8])}}`,
      8,
      /has the number -1, expected digits/,
    ],
    ['refuses an overflowing product', `{"a":${entry('U8', [2 ** 32, 2 ** 32], [0, 0])}}`, 0, /sane product/],
    [
      'refuses overlap',
      `{"a":${entry('U8', [8], [0, 8])},"b":${entry('U8', [4], [4, 8])}}`,
      8,
      /"b".*overlaps.*"a"/,
    ],
    ['refuses holes', `{"a":${entry('U8', [2], [0, 2])},"b":${entry('U8', [4], [4, 8])}}`, 8, /"b".*hole/],
    ['refuses left-over bytes', `{"a":${entry('U8', [2], [0, 2])}}`, 8, /header describes/],
    [
      'refuses twice the same name',
      `{"a":${entry('U8', [8], [0, 8])},"\\u0061":${entry('U8', [8], [0, 8])}}`,
      8,
      /names "a" twice/,
    ],
    ['refuses a list for a header', '[]', 0, /not a JSON object/],
    ['refuses broken JSON', '{"a":', 0, /not JSON/],
    [
      'refuses deep nesting without falling over',
      `{"a":${'['.repeat(200_000)}${']'.repeat(200_000)}}`,
      0,
      /nests more than 127 levels/,
    ],
    [
      'keeps hostile names off the terminal',
      `{"\\u001b[2J":${entry('F9', [1], [0, 1])}}`,
      1,
      /"\\u001b\[2J"/,
    ],
  ])('%s', async (_, header, dataBytes, message) => {
    expect(await failureOf(header, new Uint8Array(dataBytes))).toMatch(message);
  });

  it('refuses a header length that lies, without allocating it', async () => {
    const bytes = encodeSafetensors({ a: { dtype: 'F32', shape: [1], values: [1] } });
    bytes.writeBigUInt64LE(2n ** 63n, 0);
    writeFileSync(path, bytes);
    await expect(readSafetensorsHeader(path)).rejects.toThrow(
      /announces a header of 9223372036854775808 bytes/,
    );
  });

  it('refuses files that are too short, absent, folders or Git LFS pointers', async () => {
    writeFileSync(path, 'abc');
    await expect(readSafetensorsHeader(path)).rejects.toThrow(/too few/);
    await expect(readSafetensorsHeader(`${path}.absent`)).rejects.toThrow(/does not exist/);
    await expect(readSafetensorsHeader(folder.path)).rejects.toThrow(/not a regular file/);
    writeFileSync(path, 'version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 4\n');
    await expect(readSafetensorsHeader(path)).rejects.toThrow(/Git LFS pointer/);
  });
});
