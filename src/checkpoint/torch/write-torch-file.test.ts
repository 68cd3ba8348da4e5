import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readFloat32, readIntegers } from '../read-tensor.js';
import { floatSource, integerSource } from '../tensor-source.js';
import { makeTemporaryFolder } from '../../../test/support/checkpoint/temporary-folder.js';
import { encodeTorchFile } from '../../../test/support/checkpoint/write-torch-file.js';
import { readTorchHeader } from './torch-zip.js';
import { writeTorchFile } from './write-torch-file.js';
import type { PlacedEntry } from './zip.js';
import { checksumOf, encodeDirectory, encodeLocalHeader } from './zip.js';
import { openFileOutput } from '../written-folder.js';

let folder: string;
let remove: () => void;
let path: string;
beforeEach(() => {
  ({ path: folder, remove } = makeTemporaryFolder());
  path = join(folder, 'hydra_lm_head.pt');
});
afterEach(() => {
  remove();
});

const sources = [
  floatSource({ name: 'a.weight', shape: [2, 3], dtype: 'F32' }, () => Float32Array.of(1, 2, 3, 4, 5, 6.5)),
  floatSource({ name: 'half', shape: [2], dtype: 'F16' }, () => Float32Array.of(0.5, -2)),
  floatSource({ name: 'brain', shape: [1], dtype: 'BF16' }, () => Float32Array.of(3)),
  integerSource('d2t', 'I64', Int32Array.of(-1, 70_000)),
  integerSource('t2d', 'BOOL', Int32Array.of(1, 0, 1)),
  floatSource({ name: 'large', shape: [1_100_000], dtype: 'F32' }, () =>
    new Float32Array(1_100_000).fill(0.25),
  ),
];

describe('writeTorchFile', () => {
  it('writes what is read back', async () => {
    await writeTorchFile(path, sources);
    const tensors = new Map((await readTorchHeader(path)).map((tensor) => [tensor.name, tensor]));
    expect([...tensors.values()].map(({ name, dtype, shape }) => ({ name, dtype, shape }))).toEqual(
      sources.map(({ name, dtype, shape }) => ({ name, dtype, shape })),
    );
    const floats = async (name: string) => Array.from(await readFloat32(tensors.get(name)!));
    expect(await floats('a.weight')).toEqual([1, 2, 3, 4, 5, 6.5]);
    expect(await floats('half')).toEqual([0.5, -2]);
    expect(await floats('brain')).toEqual([3]);
    expect(new Set(await floats('large'))).toEqual(new Set([0.25]));
    expect(Array.from(await readIntegers(tensors.get('d2t')!))).toEqual([-1, 70_000]);
    expect(Array.from(await readIntegers(tensors.get('t2d')!))).toEqual([1, 0, 1]);
    for (const { offsetBytes } of tensors.values()) expect(offsetBytes % 64).toBe(0);
  });

  it('writes the bytes that were written in memory', async () => {
    await writeTorchFile(path, sources.slice(0, 1));
    const values = [1, 2, 3, 4, 5, 6.5];
    const expected = encodeTorchFile('hydra_lm_head', {
      'a.weight': { dtype: 'F32', shape: [2, 3], values },
    });
    expect(readFileSync(path).equals(expected)).toBe(true);
  });

  it('leaves the old file on a full disk', async () => {
    writeFileSync(path, 'old');
    const writing = writeTorchFile(path, sources, {
      openOutput: async (temporary) => ({
        ...(await openFileOutput(temporary)),
        write: () => Promise.reject(Object.assign(new Error('ENOSPC: no space'), { code: 'ENOSPC' })),
      }),
    });
    await expect(writing).rejects.toThrow(
      /^hydra_lm_head.pt could not be written to .*: ENOSPC: no space\.$/,
    );
    expect(readFileSync(path, 'utf8')).toBe('old');
    expect(readdirSync(folder)).toEqual(['hydra_lm_head.pt']);
  });
});

describe('parts of a zip', () => {
  it("have the checksum of the format's definition", () => {
    expect(checksumOf([Buffer.from('12345'), Buffer.from('6789')])).toBe(0xcbf43926);
  });

  it('say what 32 bits do not hold in blocks of 64', () => {
    const entry: PlacedEntry = { name: 'x', sizeBytes: 5e9, checksum: 7, offset: 6e9 };
    const header = encodeLocalHeader(entry);
    expect([header.readUInt32LE(14), header.readUInt32LE(18), header.readUInt32LE(22)]).toEqual([
      ...[7, 0xffffffff, 0xffffffff],
    ]);
    expect([header.readUInt16LE(31), header.readUInt16LE(33)]).toEqual([1, 16]);
    expect([header.readBigUInt64LE(35), header.readBigUInt64LE(43)]).toEqual([
      5_000_000_000n,
      5_000_000_000n,
    ]);
    expect((6e9 + header.byteLength) % 64).toBe(0);
    const directory = encodeDirectory([entry], 11e9);
    expect(directory.readUInt32LE(42)).toBe(0xffffffff);
    expect(directory.readBigUInt64LE(47 + 4 + 16)).toBe(6_000_000_000n);
    const small = encodeDirectory([{ ...entry, sizeBytes: 5, offset: 6 }], 11);
    expect(small.byteLength).toBe(46 + 1 + 22);
  });
});
