/**
 * Pickles as lists of opcodes with their operands: a program is damaged by dropping, doubling, swapping or inserting
 * whole instructions, which keeps it a program much longer than flipped bytes do.
 */
import type { Random } from '../../src/core/random.js';
import { pick } from './byte-mutations.js';

/** How many bytes follow the opcode; a name is a count that stands there itself, or lines. */
const operandBytes: Readonly<Record<number, number | 'text4' | 'text1' | 'long1' | 'lines'>> = {
  ...{ 0x80: 1, 0x4a: 4, 0x4b: 1, 0x4d: 2, 0x47: 8, 0x68: 1, 0x6a: 4, 0x71: 1, 0x72: 4, 0x95: 8 },
  ...{ 0x58: 'text4', 0x8c: 'text1', 0x8a: 'long1', 0x63: 'lines' },
};

export function splitPickle(bytes: Buffer): Buffer[] {
  const instructions: Buffer[] = [];
  for (let position = 0; position < bytes.length;) {
    const end = Math.min(bytes.length, position + 1 + countOperand(bytes, position));
    instructions.push(bytes.subarray(position, end));
    position = end;
  }
  return instructions;
}

function countOperand(bytes: Buffer, position: number): number {
  const rule = operandBytes[bytes[position]!] ?? 0;
  if (typeof rule === 'number') return rule;
  const left = bytes.length - position - 1;
  if (rule === 'text4') return left < 4 ? left : 4 + bytes.readUInt32LE(position + 1);
  if (rule === 'lines') {
    const first = bytes.indexOf(0x0a, position);
    const second = first < 0 ? -1 : bytes.indexOf(0x0a, first + 1);
    return second < 0 ? left : second - position;
  }
  return left < 1 ? left : 1 + bytes[position + 1]!;
}

const integer = (value: number): Buffer => {
  const bytes = Buffer.alloc(5);
  bytes.write('J');
  bytes.writeInt32LE(value, 1);
  return bytes;
};

/** Instructions that a state dict has, and some that it must not have. */
const foreign: readonly Buffer[] = [
  ...[
    'N',
    '(',
    't',
    'R',
    'Q',
    'b',
    'u',
    's',
    'e',
    'a',
    '}',
    ']',
    ')',
    '.',
    '0',
    '1',
    '2',
    'o',
    'i',
    '\x81',
    '\x92',
  ],
  ...[
    '\x85',
    '\x86',
    '\x87',
    '\x93',
    '\x94',
    'h\x00',
    'q\x00',
    'q\xff',
    'h\xfe',
    '\x88',
    '\x8a\x00',
    '\x8a\xff',
  ],
  ...[
    'cos\nsystem\n',
    'cbuiltins\neval\n',
    'cposix\nsystem\n',
    'ctorch._utils\n_rebuild_tensor_v2\n',
    'cx\n',
  ],
  ...[
    'ccollections\nOrderedDict\n',
    'ctorch\nFloatStorage\n',
    '\x8c\x02os\x8c\x06system\x93',
    'G\x7f\xf0\0\0\0\0\0\0',
  ],
  ...[
    'X\xff\xff\xff\xff',
    '\x8d\xff\xff\xff\xff\xff\xff\xff\xff',
    '\x95\xff\0\0\0\0\0\0\0',
    'X\x02\0\0\0\xc3(',
  ],
].map((text) => Buffer.from(text, 'latin1'));

export function mutatePickle(original: Buffer, random: Random): Buffer {
  const program = splitPickle(original);
  const rounds = 1 + random.nextInteger(3);
  for (let round = 0; round < rounds && program.length > 0; round++) {
    const place = random.nextInteger(program.length);
    switch (random.nextInteger(6)) {
      case 0:
        program.splice(place, 1);
        break;
      case 1: // again, up to some thousand times: what a loop would do
        program.splice(place, 0, ...new Array<Buffer>(10 ** random.nextInteger(5)).fill(program[place]!));
        break;
      case 2:
        [program[place], program[0]] = [program[0]!, program[place]!];
        break;
      case 3:
        program[place] = integer(pick(random, [0, -1, 1, 2 ** 31 - 1, -(2 ** 31), 16, 65536]));
        break;
      case 4: {
        const from = random.nextInteger(program.length);
        program.splice(place, 0, ...program.slice(from, from + random.nextInteger(12)));
        break;
      }
      default:
        program.splice(place, random.nextInteger(2), pick(random, foreign));
    }
  }
  return Buffer.concat(program).subarray(0, 900_000);
}
