/** Safetensors, held against the rules of the reference implementation: what it refuses is refused here too. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { readFloat32, readIntegers } from '../../../src/checkpoint/read-tensor.js';
import { readSafetensorsHeader } from '../../../src/checkpoint/safetensors/safetensors.js';
import type { StoredTensor } from '../../../src/checkpoint/stored-tensor.js';
import { isFloatDType } from '../../../src/checkpoint/stored-tensor.js';
import { encodeSafetensors, joinSafetensors } from '../../support/checkpoint/write-safetensors.js';
import type { Random } from '../../../src/core/random.js';
import { createRandom } from '../../../src/core/random.js';
import { mutateBytes, pick } from '../byte-mutations.js';
import { mutateJson } from '../json-mutations.js';
import type { FuzzKind } from '../kind.js';
import { ensure } from '../kind.js';
import type { ReferenceReading } from '../reference-safetensors.js';
import { readByReference } from '../reference-safetensors.js';
import { sampleTensors } from '../sample-tensors.js';

const original = encodeSafetensors(sampleTensors);
const headerBytes = Number(original.readBigUInt64LE());
const headerText = original.toString('utf8', 8, 8 + headerBytes);
const data = original.subarray(8 + headerBytes);

const sizesOf: Readonly<Record<string, number>> = {
  F32: 4,
  F16: 2,
  BF16: 2,
  F64: 8,
  I64: 8,
  I32: 4,
  U8: 1,
  BOOL: 1,
};

export function makeSafetensors(random: Random): Buffer {
  switch (random.nextInteger(5)) {
    case 0:
      return mutateBytes(original, random);
    case 1: // the header's text, with its length right
      return joinSafetensors(mutateBytes(Buffer.from(headerText), random).toString('latin1'), data);
    case 2: {
      const blanks = ['', '', ' ', '\n', '\r\t'].concat(random.nextInteger(4) === 0 ? ['\v'] : []);
      const spread = headerText.replace(/[{[:,]/g, (sign) => sign + pick(random, blanks));
      return joinSafetensors(
        pick(random, ['', '', '', ' ', '\ufeff']) + spread + pick(random, ['', '   ', '\0']),
        data,
      );
    }
    case 3:
      return makeFile(random);
    default:
      return joinSafetensors(mutateJson(JSON.parse(headerText), random), data);
  }
}

/** A file of its own making that is right, or wrong in one number or field. */
function makeFile(random: Random): Buffer {
  const entries: [string, Record<string, unknown>][] = [];
  let end = 0;
  for (let index = random.nextInteger(6); index >= 0; index--) {
    const dtype = pick(random, [
      ...Object.keys(sizesOf),
      ...Object.keys(sizesOf),
      'I8',
      'U64',
      'F8_E4M3',
      'f32',
    ]);
    const shape = Array.from({ length: random.nextInteger(4) }, () => random.nextInteger(4));
    const start = end;
    end += shape.reduce((product, size) => product * size, sizesOf[dtype] ?? 1);
    const wrong = random.nextInteger(10) === 0 ? pick(random, [-1, 1]) : 0;
    entries.push([`tensor ${index}`, { dtype, shape, data_offsets: [start, end + wrong] }]);
    if (random.nextInteger(8) === 0)
      entries.at(-1)![1].further = pick(random, [null, 'x', 1, 1.5, [], { a: {} }]);
  }
  random.shuffle(entries);
  const metadata = pick(random, [undefined, undefined, { format: 'pt' }, {}, null, { format: 1 }, [], 'pt']);
  const header = JSON.stringify({ ...Object.fromEntries(entries), __metadata__: metadata });
  return joinSafetensors(header, Buffer.alloc(end + (random.nextInteger(10) === 0 ? 1 : 0), 1));
}

export const safetensors: FuzzKind = {
  name: 'safetensors',
  boundedRuns: 1000,
  open(folder) {
    const path = join(folder, 'model.safetensors');
    return async (seed) => {
      const bytes = makeSafetensors(createRandom(seed, 'safetensors'));
      writeFileSync(path, bytes);
      const reference = readByReference(bytes);
      let tensors: readonly StoredTensor[];
      try {
        tensors = await readSafetensorsHeader(path);
      } catch (failure) {
        if (reference?.oddities.length === 0)
          throw new Error(`refused, although the reference implementation reads it: ${String(failure)}`);
        throw failure;
      }
      ensure(reference !== undefined, 'accepted, although the reference implementation refuses it');
      compareReadings(tensors, reference);
      for (const tensor of tensors) {
        ensure(
          tensor.offsetBytes + tensor.sizeBytes <= bytes.length,
          `${tensor.name} ends outside of the file`,
        );
        await (isFloatDType(tensor.dtype) ? readFloat32(tensor) : readIntegers(tensor));
      }
    };
  },
};

function compareReadings(tensors: readonly StoredTensor[], reference: ReferenceReading): void {
  const ours = tensors.map(({ name, dtype, shape, offsetBytes, sizeBytes }) => {
    const start = offsetBytes - 8 - reference.headerBytes;
    return JSON.stringify([name, dtype, shape, start, start + sizeBytes]);
  });
  const theirs = reference.tensors.map(({ name, dtype, shape, start, end }) =>
    JSON.stringify([name, dtype, shape.map(Number), Number(start), Number(end)]),
  );
  ensure(ours.toSorted().join('\n') === theirs.toSorted().join('\n'), 'read otherwise than by the reference');
}
