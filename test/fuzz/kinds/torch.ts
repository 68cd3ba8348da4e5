/** Torch files: the zip around, the pickle inside, and storages that tensors look into. No code of theirs may run. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { readFloat32, readIntegers } from '../../../src/checkpoint/read-tensor.js';
import { countElements, isFloatDType } from '../../../src/checkpoint/stored-tensor.js';
import { encodeValues } from '../../support/checkpoint/encode-values.js';
import { encodeTorchFile, joinTorchFile } from '../../support/checkpoint/write-torch-file.js';
import { readTorchHeader } from '../../../src/checkpoint/torch/torch-zip.js';
import type { Picklable } from '../../support/checkpoint/encode-pickle.js';
import { encodePickle, pickleTensor } from '../../support/checkpoint/encode-pickle.js';
import type { Random } from '../../../src/core/random.js';
import { createRandom } from '../../../src/core/random.js';
import { mutateBytes, pick } from '../byte-mutations.js';
import type { FuzzKind } from '../kind.js';
import { ensure } from '../kind.js';
import { mutatePickle } from '../pickle-programs.js';
import { sampleTensors } from '../sample-tensors.js';

const plain = encodeTorchFile('model', sampleTensors);
const wide = encodeTorchFile('model', sampleTensors, { zip64: true });
const names = Object.keys(sampleTensors);
const storages = Object.fromEntries(names.map((name, key) => [key, encodeValues(sampleTensors[name]!)]));
const pickle = encodePickle(
  new Map(
    Object.entries(sampleTensors).map(([name, tensor], key): [string, Picklable] => [
      name,
      pickleTensor({ ...tensor, key: String(key), elements: tensor.values.length }),
    ]),
  ),
);

export function makeTorchFile(random: Random): Buffer {
  switch (random.nextInteger(5)) {
    case 0:
      return mutateBytes(pick(random, [plain, wide]), random);
    case 1: // the end of the file, where the zip's directory lies
      return mutateTail(pick(random, [plain, wide]), random);
    case 2:
      return joinTorchFile('model', encodePickle(new Map([['x', strangeView(random)]])), storages);
    default:
      return joinTorchFile('model', mutatePickle(pickle, random), storages);
  }
}

function mutateTail(file: Buffer, random: Random): Buffer {
  const start = file.length - Math.min(file.length, 22 + random.nextInteger(700));
  return Buffer.concat([file.subarray(0, start), mutateBytes(file.subarray(start), random)]);
}

/** A tensor that looks into a storage of 12 halves in a way that may or may not fit. */
function strangeView(random: Random): Picklable {
  const size = (): number => pick(random, [0, 1, 2, 3, 4, 12, 13, -1, 2 ** 31, 2 ** 40]);
  const rank = random.nextInteger(4) === 0 ? random.nextInteger(20) : random.nextInteger(3);
  return pickleTensor({
    dtype: 'F16',
    key: pick(random, ['0', '0', '0', '1', '99', '../0', '']),
    elements: pick(random, [12, 12, 12, 0, 24, -1, 2 ** 40]),
    offset: pick(random, [0, 0, 1, 11, 12, -1, 2 ** 45]),
    shape: Array.from({ length: rank }, size),
    strides: Array.from({ length: rank }, size),
  });
}

export const torch: FuzzKind = {
  name: 'torch',
  boundedRuns: 1000,
  open(folder) {
    const path = join(folder, 'pytorch_model.bin');
    return async (seed) => {
      const bytes = makeTorchFile(createRandom(seed, 'torch'));
      writeFileSync(path, bytes);
      for (const tensor of await readTorchHeader(path)) {
        const { name, offsetBytes, sizeBytes, shape, dtype } = tensor;
        ensure(
          offsetBytes >= 0 && offsetBytes + sizeBytes <= bytes.length,
          `${name} ends outside of the file`,
        );
        const values = await (isFloatDType(dtype) ? readFloat32(tensor) : readIntegers(tensor));
        ensure(values.length === countElements(shape) && values.length <= bytes.length, `${name} grew`);
      }
    };
  },
};
