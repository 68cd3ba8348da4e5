/** Thousands of seeded mutations: every outcome is a clean parse or a MistletoeError, and reading stays bounded. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { MistletoeError } from '../core/errors.js';
import { readFloat32, readIntegers } from './read-tensor.js';
import { readSafetensorsHeader } from './safetensors/safetensors.js';
import type { StoredTensor } from './stored-tensor.js';
import { isFloatDType } from './stored-tensor.js';
import { makeTemporaryFolder } from '../../test/support/checkpoint/temporary-folder.js';
import { encodeSafetensors } from '../../test/support/checkpoint/write-safetensors.js';
import { encodeTorchFile } from '../../test/support/checkpoint/write-torch-file.js';
import { readTorchHeader } from './torch/torch-zip.js';

const folder = makeTemporaryFolder();
afterAll(folder.remove);

const tensors = {
  'layer.0.weight': { dtype: 'F16', shape: [4, 3], values: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12] },
  'layer.0.bias': { dtype: 'F32', shape: [4], values: [0.5, 1, 2, 3] },
  d2t: { dtype: 'I64', shape: [3], values: [0, 5, 9] },
  t2d: { dtype: 'BOOL', shape: [5], values: [1, 0, 1, 0, 1] },
} as const;

type Random = (limit: number) => number;

function makeRandom(seed: number): Random {
  let state = seed >>> 0;
  return (limit) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * limit);
  };
}

const lies = [0n, 1n, 0xffn, 0x7fffffffn, 0xffffffffn, 2n ** 53n, 2n ** 63n, 2n ** 64n - 1n];

function mutate(original: Buffer, random: Random): Buffer {
  let bytes = Buffer.from(original);
  const rounds = 1 + random(3);
  for (let round = 0; round < rounds; round += 1) {
    const position = random(bytes.byteLength);
    switch (random(7)) {
      case 0: // a flipped bit
        bytes[position]! ^= 1 << random(8);
        break;
      case 1: // another byte, often a digit or an opcode
        bytes[position] = [0x2e, 0x52, 0x75, 0x39, 0x30, 0x2d, 0x5d, random(256)][random(8)]!;
        break;
      case 2: // cut off
        bytes = bytes.subarray(0, position + 1);
        break;
      case 3: // a lying length of one, two, four or eight bytes
        {
          const lie = Buffer.alloc(8);
          lie.writeBigUInt64LE(lies[random(lies.length)]!);
          lie.copy(bytes, position, 0, 2 ** random(4));
        }
        break;
      case 4: // a piece taken out
        bytes = Buffer.concat([bytes.subarray(0, position), bytes.subarray(position + 1 + random(16))]);
        break;
      case 5: // a piece doubled
        bytes = Buffer.concat([bytes.subarray(0, position + random(32)), bytes.subarray(position)]);
        break;
      default: // a piece moved
        bytes.copy(bytes, random(bytes.byteLength), position, position + 1 + random(24));
    }
    if (bytes.byteLength === 0) return bytes;
  }
  return bytes;
}

async function readAll(path: string, readHeader: (path: string) => Promise<StoredTensor[]>): Promise<number> {
  let elements = 0;
  for (const tensor of await readHeader(path)) {
    const values = isFloatDType(tensor.dtype) ? await readFloat32(tensor) : await readIntegers(tensor);
    elements = Math.max(elements, values.length);
  }
  return elements;
}

describe.each([
  ['safetensors', encodeSafetensors(tensors), readSafetensorsHeader],
  ['torch zip', encodeTorchFile('model', tensors), readTorchHeader],
  ['torch zip64', encodeTorchFile('model', tensors, { zip64: true }), readTorchHeader],
] as const)('a damaged %s file', (name, original, readHeader) => {
  it('is refused or read, never anything else', async () => {
    const random = makeRandom(20240607);
    const path = join(folder.path, `${name.replace(' ', '-')}.bin`);
    let refused = 0;
    for (let attempt = 0; attempt < 300; attempt += 1) {
      const bytes = mutate(original, random);
      writeFileSync(path, bytes);
      try {
        expect(await readAll(path, readHeader)).toBeLessThanOrEqual(bytes.byteLength);
      } catch (failure) {
        if (!(failure instanceof MistletoeError)) {
          throw new Error(`attempt ${attempt}: ${String(failure)}`, { cause: failure });
        }
        refused += 1;
      }
    }
    expect(refused).toBeGreaterThan(100);
    expect(refused).toBeLessThan(300);
  });

  it('is refused wherever it is cut off', async () => {
    const path = join(folder.path, `${name.replace(' ', '-')}-cut.bin`);
    for (let length = 0; length < original.byteLength; length += 17) {
      writeFileSync(path, original.subarray(0, length));
      await expect(readHeader(path)).rejects.toBeInstanceOf(MistletoeError);
    }
  });
});
