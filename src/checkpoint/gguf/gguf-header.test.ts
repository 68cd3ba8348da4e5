import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import type { GgufMetadata } from '../../../test/support/checkpoint/encode-gguf.js';
import { encodeGguf, uint64 } from '../../../test/support/checkpoint/encode-gguf.js';
import { makeTemporaryFolder } from '../../../test/support/checkpoint/temporary-folder.js';
import { float32, text, uint32 } from '../../../test/support/checkpoint/write-gguf.js';
import { MistletoeError } from '../../core/errors.js';
import { readFloat32 } from '../read-tensor.js';
import { readGgufHeader } from './gguf-header.js';
import { findFlag, findNumber, findNumbers, findText, findTexts } from './gguf-metadata.js';

const { path: folder, remove } = makeTemporaryFolder();
afterAll(remove);
const path = join(folder, 'model.gguf');

const metadata: GgufMetadata = {
  'general.architecture': text('llama'),
  count: uint32(7),
  fraction: float32(0.5),
  large: { type: 'uint64', value: 2 ** 40 },
  flag: { type: 'bool', value: true },
  texts: { type: 'strings', value: ['a', '', '▁世'] },
  numbers: { type: 'int32s', value: [-1, 2] },
};
const values = Float32Array.from({ length: 6 }, (_, index) => index);
const matrix = { name: 'a', type: 'F32', shape: [2, 3], data: new Uint8Array(values.buffer) } as const;
const quantized = { name: 'b', type: 'Q8_0', shape: [2, 32], data: new Uint8Array(68) } as const;
const whole = encodeGguf(metadata, [matrix, quantized]);

async function read(bytes: Uint8Array) {
  writeFileSync(path, bytes);
  return readGgufHeader(path);
}

describe('a GGUF header', () => {
  it.each([2, 3])('of version %i is read with its values and tensors', async (version) => {
    const header = await read(encodeGguf(metadata, [matrix, quantized], { version }));
    expect(findText(header, 'general.architecture')).toBe('llama');
    expect(findNumber(header, 'count')).toBe(7);
    expect(findNumber(header, 'fraction')).toBe(0.5);
    expect(findNumber(header, 'large')).toBe(2 ** 40);
    expect(findNumber(header, 'absent')).toBeUndefined();
    expect(findFlag(header, 'flag')).toBe(true);
    expect(findTexts(header, 'texts', 3)).toEqual(['a', '', '▁世']);
    expect(findNumbers(header, 'numbers', 2)).toEqual([-1, 2]);
    const [first, second] = header.tensors;
    expect(first).toMatchObject({ name: 'a', dtype: 'F32', shape: [2, 3], sizeBytes: 24 });
    expect(second).toMatchObject({ name: 'b', dtype: 'Q8_0', shape: [2, 32], sizeBytes: 68 });
    expect(second!.offsetBytes - first!.offsetBytes).toBe(32);
    expect(await readFloat32({ ...first!, file: path })).toEqual(values);
  });

  it('may be longer than what is read first, and aligned otherwise', async () => {
    const long: GgufMetadata = {
      'general.alignment': uint32(64),
      texts: { type: 'strings', value: new Array<string>(150_000).fill('eight ch') },
    };
    const header = await read(encodeGguf(long, [matrix, quantized], { alignment: 64 }));
    expect(findTexts(header, 'texts', 1e6)).toHaveLength(150_000);
    expect(header.tensors.map(({ offsetBytes }) => offsetBytes % 64)).toEqual([0, 0]);
  });

  it('of values with another type than expected is refused by the key', async () => {
    const header = await read(whole);
    expect(() => findNumber(header, 'flag')).toThrow(/"flag" of the type bool, expected a number/);
    expect(() => findFlag(header, 'count')).toThrow(/"count" of the type uint32, expected a boolean/);
    expect(() => findText(header, 'texts')).toThrow(/array of string, expected a string/);
    expect(() => findTexts(header, 'numbers', 9)).toThrow(/array of int32, expected an array of strings/);
    expect(() => findNumbers(header, 'numbers', 3)).toThrow(/2 elements in "numbers", expected 3/);
    expect(() => findTexts(header, 'texts', 2)).toThrow(/3 elements in "texts", expected at most 2/);
  });
});

/** The file with some bytes replaced, at a place counted from a text in it. */
function patch(after: string, distance: number, bytes: Uint8Array): Buffer {
  const changed = Buffer.from(whole);
  const at = changed.indexOf(after) + after.length + distance;
  changed.set(bytes, at);
  return changed;
}

const huge = uint64(2n ** 63n);
const typeAt = 4 + 2 * 8; // behind a matrix's name: number of dimensions, two sizes
const withText = (bytes: Buffer): Buffer => {
  const file = Buffer.from(encodeGguf({ key: text('xxxx') }, [matrix]));
  file.set(bytes, file.indexOf('xxxx'));
  return file;
};

describe('a damaged GGUF file is refused:', () => {
  it.each<[string, Uint8Array, RegExp]>([
    ['no bytes', Buffer.alloc(0), /begins with "", expected GGUF/],
    ['another format', Buffer.from('PK\u0003\u0004 and more'), /expected GGUF/],
    ['a Git LFS pointer', Buffer.from('version https://git-lfs.github.com/spec/v1\n'), /Git LFS pointer/],
    ['only its mark', Buffer.from('GGUF'), /ends before its version/],
    ['version 1', patch('GGUF', 0, Buffer.from([1, 0, 0, 0])), /GGUF version 1; versions 2 and 3 are read/],
    ['big-endian', patch('GGUF', 0, Buffer.from([0, 0, 0, 3])), /is big-endian/],
    ['2^63 tensors', patch('GGUF', 4, huge), /announces more than 2\^53 tensors/],
    ['65537 keys', patch('GGUF', 12, uint64(65_537)), /announces 65537 metadata entries; at most 65536/],
    ['a key of 2^63 bytes', patch('GGUF', 20, huge), /key 0 of more than 2\^53 bytes/],
    ['a text of 2^63 bytes', patch('general.architecture', 4, huge), /ends before the value of/],
    ['an unknown type of value', patch('general.architecture', 0, Buffer.from([99])), /type 99/],
    ['an array of arrays', patch('texts', 4, Buffer.from([9])), /has arrays in "texts"/],
    ['an array of 2^63 texts', patch('texts', 8, huge), /ends before the value of "texts"/],
    ['an array of 2^40 numbers', patch('numbers', 8, uint64(2 ** 40)), /ends before the value of "numbers"/],
    [
      'five dimensions',
      patch('numbers', 4 + 4 + 8 + 8 + 8 + 1, Buffer.from([5])),
      /5 dimensions, expected 1 to 4/,
    ],
    ['the end inside its data', whole.subarray(0, whole.length - 64), /it is truncated/],
  ])('%s', async (_, bytes, message) => {
    await expect(read(bytes)).rejects.toThrow(message);
  });

  it.each<[string, Buffer, RegExp]>([
    ['a key twice', encodeTwice(), /has the key "key" twice/],
    ['a tensor twice', encodeGguf(metadata, [matrix, matrix]), /has the tensor "a" twice/],
    ['a size of zero', encodeGguf({}, [{ ...matrix, shape: [0, 3] }]), /shape \[0, 3\], expected positive/],
    ['2^60 elements', encodeGguf({}, [{ ...matrix, shape: [2 ** 30, 2 ** 30] }]), /expected positive sizes/],
    ['rows of part of a block', encodeGguf({}, [{ ...quantized, shape: [2, 33] }]), /rows of 33 elements/],
    ['an alignment of 24', encodeGguf({ 'general.alignment': uint32(24) }, [matrix]), /general.alignment 24/],
    ['text that is not UTF-8', withText(Buffer.from([0xff, 0xfe])), /not UTF-8/],
  ])('%s', async (_, bytes, message) => {
    const reading = read(bytes).then((header) => findText(header, 'key'));
    await expect(reading).rejects.toThrow(message);
  });

  it('a type that is not read, by its name and with what to do', async () => {
    const failure: unknown = await read(encodeGguf({}, [{ ...matrix, type: 'IQ2_XXS' }])).catch(
      (cause: unknown) => cause,
    );
    expect(failure).toBeInstanceOf(MistletoeError);
    expect((failure as MistletoeError).message).toMatch(
      /tensor "a" in .* has the type IQ2_XXS, which is not read/,
    );
    expect((failure as MistletoeError).hint).toMatch(/llama-quantize --allow-requantize/);
  });

  it('an offset into another tensor', async () => {
    const file = Buffer.from(
      encodeGguf({}, [
        { ...matrix, name: 'first' },
        { ...matrix, name: 'second' },
      ]),
    );
    file.set(uint64(0), file.indexOf('second') + 'second'.length + typeAt + 4);
    await expect(read(file)).rejects.toThrow(/"second" .* begins at 0, expected 32/);
  });

  it('any beginning of a file', async () => {
    const small = encodeGguf({ key: text('value') }, [matrix]);
    for (let length = 0; length < small.length - 8; length++)
      await expect(read(small.subarray(0, length))).rejects.toBeInstanceOf(MistletoeError);
  });
});

function encodeTwice(): Buffer {
  const file = Buffer.from(encodeGguf({ key: uint32(1), kez: uint32(2) }, [matrix]));
  file.set(Buffer.from('key'), file.indexOf('kez'));
  return file;
}
