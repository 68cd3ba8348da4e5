import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { MessageWriter } from './protobuf.js';

const bytes = (writer: MessageWriter): readonly number[] => [...writer.finish()];

function readVarint(data: readonly number[], start: number): { value: bigint; next: number } {
  let value = 0n;
  let next = start;
  for (let shift = 0n; ; shift += 7n) {
    const byte = data[next++]!;
    value |= BigInt(byte & 0x7f) << shift;
    if (byte < 0x80) return { value: BigInt.asIntN(64, value), next };
  }
}

describe('the wire format', () => {
  it('writes the examples of its documentation', () => {
    expect(bytes(new MessageWriter().integer(1, 150))).toEqual([0x08, 0x96, 0x01]);
    expect(bytes(new MessageWriter().string(2, 'testing'))).toEqual([0x12, 7, ...Buffer.from('testing')]);
    expect(bytes(new MessageWriter().message(3, new MessageWriter().integer(1, 150)))).toEqual([
      0x1a, 3, 0x08, 0x96, 0x01,
    ]);
  });

  it('writes negative numbers in ten bytes, as two to the 64 minus their size', () => {
    expect(bytes(new MessageWriter().integer(1, -1))).toEqual([0x08, ...Array<number>(9).fill(0xff), 0x01]);
    expect(bytes(new MessageWriter().integer(1, -2))).toEqual([
      0x08,
      0xfe,
      ...Array<number>(8).fill(0xff),
      0x01,
    ]);
  });

  it('gives every whole number back', () => {
    fc.assert(
      fc.property(fc.maxSafeInteger(), (value) => {
        const data = bytes(new MessageWriter().integer(1, value));
        expect(readVarint(data, 1)).toEqual({ value: BigInt(value), next: data.length });
      }),
    );
  });

  it('writes field numbers above 15 in two bytes', () => {
    expect(bytes(new MessageWriter().integer(20, 7))).toEqual([0xa0, 0x01, 7]);
  });

  it('writes floats in four bytes, lowest first', () => {
    expect(bytes(new MessageWriter().float(2, 1))).toEqual([0x15, 0, 0, 0x80, 0x3f]);
  });

  it('writes a list as one field for each value and an empty list as nothing', () => {
    expect(bytes(new MessageWriter().integers(1, [3, 0]))).toEqual([0x08, 3, 0x08, 0]);
    expect(bytes(new MessageWriter().integers(1, []))).toEqual([]);
  });

  it('counts bytes of text, not characters', () => {
    expect(bytes(new MessageWriter().string(1, 'é'))).toEqual([0x0a, 2, 0xc3, 0xa9]);
  });
});
