import { describe, expect, it } from 'vitest';
import type { HalfType } from './half-floats.js';
import { decodeHalves, encodeHalves, roundToHalf } from './half-floats.js';

// float16 as Python's struct.pack('<e', x) writes it; bfloat16 is the upper half of struct.pack('<f', x), rounded by hand.
const known: Readonly<Record<HalfType, readonly (readonly [number, number])[]>> = {
  float16: [
    [1, 0x3c00],
    [-2, 0xc000],
    [1 / 3, 0x3555],
    [65504, 0x7bff],
    [65519, 0x7bff],
    [65520, 0x7c00],
    [2 ** -14, 0x0400],
    [2 ** -24, 0x0001],
    [2 ** -25, 0x0000],
    [3 * 2 ** -25, 0x0002],
    [-0, 0x8000],
    [Infinity, 0x7c00],
    [-Infinity, 0xfc00],
  ],
  bfloat16: [
    [1, 0x3f80],
    [-2, 0xc000],
    [1 / 3, 0x3eab],
    [3.3895313892515355e38, 0x7f7f],
    [3.4e38, 0x7f80],
    [2 ** -133, 0x0001],
    [1 + 2 ** -8, 0x3f80],
    [1 + 3 * 2 ** -8, 0x3f82],
    [-0, 0x8000],
    [Infinity, 0x7f80],
    [-Infinity, 0xff80],
  ],
};

describe.each(['float16', 'bfloat16'] as const)('%s', (type) => {
  it.each(known[type])('writes %s as its bits', (value, bits) => {
    expect(encodeHalves([value], type)[0]).toBe(bits);
  });

  it('gives every value back that it holds', () => {
    const all = Uint16Array.from({ length: 65536 }, (_, bits) => bits);
    const values = decodeHalves(all, type);
    const back = encodeHalves(values, type);
    values.forEach((value, bits) => {
      if (Number.isNaN(value)) expect(decodeHalves(back.subarray(bits, bits + 1), type)[0]).toBeNaN();
      else if (back[bits] !== bits) expect.fail(`${bits} became ${back[bits]}`);
    });
  });

  it('rounds to the nearest value, and to the even one in the middle', () => {
    const highest = type === 'float16' ? 0x7bff : 0x7f7f;
    const values = decodeHalves(
      Uint16Array.from({ length: highest + 1 }, (_, bits) => bits),
      type,
    );
    for (let bits = 0; bits < highest; bits++) {
      const [low, high] = [values[bits]!, values[bits + 1]!];
      const middle = (low + high) / 2;
      const inside = (high - low) / 64;
      const found = encodeHalves([middle - inside, middle, middle + inside, -middle], type);
      const even = bits % 2 === 0 ? bits : bits + 1;
      const expected = [bits, even, bits + 1, 0x8000 | even];
      if (found.some((value, at) => value !== expected[at])) expect.fail(`at ${bits}: ${found.join()}`);
    }
  });

  it('keeps what is not a number', () => {
    expect(roundToHalf(NaN, type)).toBeNaN();
  });
});
