import { expect } from 'vitest';

interface Comparable {
  readonly shape: readonly number[];
  readonly data: Float32Array | Float64Array | Int32Array | Uint8Array | Uint16Array;
}

export interface Tolerance {
  readonly relative: number;
  readonly absolute: number;
}

/** Same names, shapes and types, and values within absolute + relative * |expected|; whole numbers and bits exactly. */
export function expectClose(
  actual: Readonly<Record<string, Comparable>>,
  expected: Readonly<Record<string, Comparable>>,
  { relative, absolute }: Tolerance,
): void {
  expect(Object.keys(actual).sort()).toEqual(Object.keys(expected).sort());
  for (const [name, { shape, data }] of Object.entries(expected)) {
    const found = actual[name]!;
    expect([name, ...found.shape]).toEqual([name, ...shape]);
    expect(found.data.constructor.name).toBe(data.constructor.name);
    expect(found.data.length).toBe(data.length);
    const isExact = !(data instanceof Float32Array || data instanceof Float64Array);
    for (let at = 0; at < data.length; at++) {
      const [own, wanted] = [found.data[at]!, data[at]!];
      const allowed = isExact ? 0 : absolute + relative * Math.abs(wanted);
      if (Object.is(own, wanted) || Math.abs(own - wanted) <= allowed) continue;
      expect.fail(
        `${name}[${at}] is ${own}, expected ${wanted} (of ${data.length}: ${data.slice(0, 8).join(', ')})`,
      );
    }
  }
}
