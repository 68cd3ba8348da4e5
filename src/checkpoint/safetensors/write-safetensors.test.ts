import { chmodSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { MistletoeError } from '../../core/errors.js';
import { readFloat32, readIntegers } from '../read-tensor.js';
import { readSafetensorsHeader } from './safetensors.js';
import type { StoredTensor } from '../stored-tensor.js';
import { bytesPerElement } from '../stored-tensor.js';
import type { TensorSource, WrittenFloat } from '../tensor-source.js';
import { floatSource, integerSource, storedSource } from '../tensor-source.js';
import { encodeValues } from '../../../test/support/checkpoint/encode-values.js';
import { makeTemporaryFolder } from '../../../test/support/checkpoint/temporary-folder.js';
import { writeTorchFile } from '../../../test/support/checkpoint/write-torch-file.js';
import { readTorchHeader } from '../torch/torch-zip.js';
import { writeSafetensors } from './write-safetensors.js';
import { openFileOutput } from '../written-folder.js';

let folder: string;
let remove: () => void;
let path: string;
beforeEach(() => {
  ({ path: folder, remove } = makeTemporaryFolder());
  path = join(folder, 'model.safetensors');
});
afterEach(() => {
  remove();
});

const floats = (name: string, dtype: WrittenFloat, values: readonly number[]): TensorSource =>
  floatSource({ name, shape: [values.length], dtype }, () => Float32Array.from(values));

async function readBack(): Promise<Map<string, StoredTensor>> {
  return new Map((await readSafetensorsHeader(path)).map((tensor) => [tensor.name, tensor]));
}

async function failureOf(writing: Promise<void>): Promise<MistletoeError> {
  const failure: unknown = await writing.then(
    () => undefined,
    (cause: unknown) => cause,
  );
  expect(failure).toBeInstanceOf(MistletoeError);
  return failure as MistletoeError;
}

describe('writeSafetensors', () => {
  it('writes every type, and what is read back is what was given', async () => {
    await writeSafetensors(path, [
      integerSource('t2d', 'BOOL', Int32Array.of(1, 0, 1)),
      floats('half', 'F16', [0.5, -65504, 2 ** -24, 0.1]),
      floats('brain', 'BF16', [-1, 3, 0.1]),
      floatSource({ name: 'matrix', shape: [2, 2], dtype: 'F32' }, () => Float32Array.of(1.5, -2, 3e-40, 4)),
      integerSource('d2t', 'I64', Int32Array.of(-7, 2 ** 31 - 1, 0)),
      floatSource({ name: 'empty', shape: [0, 5], dtype: 'F32' }, () => new Float32Array(0)),
      floatSource({ name: 'scalar', shape: [], dtype: 'F32' }, () => Promise.resolve(Float32Array.of(0.25))),
    ]);
    const tensors = await readBack();
    const valuesOf = async (name: string) => Array.from(await readFloat32(tensors.get(name)!));
    expect(await valuesOf('matrix')).toEqual([1.5, -2, Math.fround(3e-40), 4]);
    expect(tensors.get('matrix')!.shape).toEqual([2, 2]);
    expect(await valuesOf('scalar')).toEqual([0.25]);
    expect(await valuesOf('empty')).toEqual([]);
    expect(Array.from(await readIntegers(tensors.get('d2t')!))).toEqual([-7, 2 ** 31 - 1, 0]);
    expect(Array.from(await readIntegers(tensors.get('t2d')!))).toEqual([1, 0, 1]);
    // Against an encoder that shares nothing with the product's.
    for (const [name, dtype, values] of [
      ['half', 'F16', [0.5, -65504, 2 ** -24, 0.1]],
      ['brain', 'BF16', [-1, 3, 0.1]],
    ] as const) {
      const { offsetBytes, sizeBytes } = tensors.get(name)!;
      const bytes = readFileSync(path).subarray(offsetBytes, offsetBytes + sizeBytes);
      expect([...bytes]).toEqual([...encodeValues({ dtype, shape: [values.length], values })]);
    }
    expect(readFileSync(path, 'utf8')).toContain('"__metadata__":{"format":"pt"}');
    for (const { dtype, offsetBytes } of tensors.values())
      expect(offsetBytes % bytesPerElement(dtype)).toBe(0);
    expect(readdirSync(folder)).toEqual(['model.safetensors']);
  });

  it('writes tensors of several pieces, and copies stored ones as they are', async () => {
    const values = Float32Array.from({ length: 2_100_000 }, (_, index) => index / 7);
    await writeSafetensors(path, [
      floatSource({ name: 'a', shape: [3, 700_000], dtype: 'F32' }, () => values),
    ]);
    const [stored] = [...(await readBack()).values()];
    expect(Buffer.compare(Buffer.from((await readFloat32(stored!)).buffer), Buffer.from(values.buffer))).toBe(
      0,
    );
    const copy = join(folder, 'copy.safetensors');
    await writeSafetensors(copy, [storedSource(stored!)]);
    expect(readFileSync(copy).equals(readFileSync(path))).toBe(true);
  });

  it('puts turned tensors of torch files in order', async () => {
    const torch = join(folder, 'x.bin');
    writeTorchFile(torch, {
      a: { dtype: 'F16', shape: [2, 3], values: [1, 2, 3, 4, 5, 6] },
      d2t: { dtype: 'I64', shape: [2, 2], values: [1, 2, 3, 4] },
      t2d: { dtype: 'BOOL', shape: [2, 2], values: [1, 0, 0, 1] },
    });
    const turned = (await readTorchHeader(torch)).map((tensor): StoredTensor => {
      const shape = tensor.shape.toReversed();
      return { ...tensor, shape, strides: [1, shape[0]!] };
    });
    await writeSafetensors(path, turned.map(storedSource));
    const tensors = await readBack();
    expect([tensors.get('a')!.dtype, tensors.get('d2t')!.dtype, tensors.get('t2d')!.dtype]).toEqual([
      ...['F16', 'I64', 'BOOL'],
    ]);
    expect(Array.from(await readFloat32(tensors.get('a')!))).toEqual([1, 4, 2, 5, 3, 6]);
    expect(Array.from(await readIntegers(tensors.get('d2t')!))).toEqual([1, 3, 2, 4]);
    expect(Array.from(await readIntegers(tensors.get('t2d')!))).toEqual([1, 0, 0, 1]);
  });

  it.each([0, 1, 2])(
    'leaves the old file, and nothing else, on a disk that is full after %i writes',
    async (room) => {
      writeFileSync(path, 'old');
      const full = () =>
        Promise.reject(
          Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' }),
        );
      const failure = await failureOf(
        writeSafetensors(path, [floats('a', 'F32', [1]), floats('b', 'F32', [2])], async (temporary) => {
          const output = await openFileOutput(temporary);
          let writes = 0;
          return { ...output, write: (bytes) => ((writes += 1) > room ? full() : output.write(bytes)) };
        }),
      );
      expect(failure.message).toBe(
        `model.safetensors could not be written to ${folder}: ENOSPC: no space left on device, write.`,
      );
      expect(failure.hint).toMatch(/Make room/);
      expect(readdirSync(folder)).toEqual(['model.safetensors']);
      expect(readFileSync(path, 'utf8')).toBe('old');
    },
  );

  it('says in a sentence that a folder is not there, is a file, or cannot be written', async () => {
    const tensors = [floats('a', 'F32', [1])];
    writeFileSync(join(folder, 'file'), '');
    expect((await failureOf(writeSafetensors(join(folder, 'gone', 'x'), tensors))).message).toMatch(
      /no such file or directory/,
    );
    expect((await failureOf(writeSafetensors(join(folder, 'file', 'x'), tensors))).hint).toMatch(
      /file stands/,
    );
    mkdirSync(join(folder, 'locked'));
    chmodSync(join(folder, 'locked'), 0o500);
    if (process.getuid?.() !== 0) {
      expect((await failureOf(writeSafetensors(join(folder, 'locked', 'x'), tensors))).hint).toMatch(
        /writable/,
      );
    }
    mkdirSync(path); // a rename onto a folder fails at the very end
    expect((await failureOf(writeSafetensors(path, tensors))).message).toMatch(/could not be written/);
    expect(readdirSync(folder).sort()).toEqual(['file', 'locked', 'model.safetensors']);
  });

  it.each([
    ['a NaN', [floats('a', 'F32', [1, NaN])], /"a" holds NaN, which F32 cannot keep/],
    ['what is infinite as a half', [floats('a', 'F16', [65_520])], /"a" holds 65520, which F16 cannot keep/],
    ['a name twice', [floats('a', 'F32', [1]), floats('a', 'F32', [1])], /two tensors of the name "a"/],
    ['the name of the metadata', [floats('__metadata__', 'F32', [1])], /two tensors/],
    [
      'values that do not fill the shape',
      [floatSource({ name: 'a', shape: [3], dtype: 'F32' }, () => new Float32Array(2))],
      /gave 8 bytes, but F32 \[3\] needs 12/,
    ],
  ])('refuses %s and leaves nothing', async (_, tensors, message) => {
    expect((await failureOf(writeSafetensors(path, tensors))).message).toMatch(message);
    expect(readdirSync(folder)).toEqual([]);
  });
});
