import { describe, expect, it } from 'vitest';
import * as z from './schema.js';

/** Accepts numbers, and counts what it was asked. */
function createCounter() {
  let asked = 0;
  const schema = z.custom<number>((value) => ((asked += 1), typeof value === 'number'), 'expected a number');
  return { schema, count: () => asked };
}

const many = (item: unknown): unknown[] => new Array<unknown>(100_000).fill(item);
const issuesOf = (schema: z.ZodType, value: unknown) => schema.safeParse(value).error?.issues ?? [];

describe('a list', () => {
  it('ends at its first fault, also with checks behind it', () => {
    const { schema, count } = createCounter();
    const list = z.array(schema).min(1).max(1_000_000).readonly();
    expect(issuesOf(list, [1, ...many('x')])).toMatchObject([{ path: [1], message: 'expected a number' }]);
    expect(count()).toBe(2);
    expect(list.parse([1, 2])).toEqual([1, 2]);
    expect(issuesOf(list, [])).toMatchObject([{ code: 'too_small' }]);
    expect(issuesOf(list, {})).toMatchObject([{ code: 'invalid_type', expected: 'array' }]);
  });

  it('passes on the faults of one item, however deep it is', () => {
    const list = z.array(z.object({ a: z.string(), b: z.array(z.object({ c: z.string(), d: z.string() })) }));
    expect(issuesOf(list, many({ b: many({}) })).map(({ path }) => path.join('.'))).toEqual([
      ...['0.a', '0.b.0.c', '0.b.0.d'],
    ]);
  });

  it('has transformed items', () => {
    expect(z.array(z.string().transform(Number)).parse(['1', '2'])).toEqual([1, 2]);
  });
});

describe('a record', () => {
  it('ends at its first bad value or key', () => {
    const { schema, count } = createCounter();
    const record = z.record(z.string().regex(/^k/), schema).nullish();
    const bad = Object.fromEntries(many('x').map((value, index) => [`k${index}`, value]));
    expect(issuesOf(record, { k: 1, ...bad })).toMatchObject([
      { path: ['k0'], message: 'expected a number' },
    ]);
    expect(count()).toBeLessThan(5);
    expect(issuesOf(record, { k: 1, other: 1 })).toMatchObject([{ code: 'invalid_key', path: ['other'] }]);
    expect(record.parse({ k: 1, k2: 2 })).toEqual({ k: 1, k2: 2 });
  });

  it('has no prototype of the file', () => {
    const read = z.record(z.string(), z.unknown()).parse(JSON.parse('{"__proto__":{"admin":true},"a":1}'));
    expect(Object.getPrototypeOf(read)).toBe(Object.prototype);
    expect(read).toEqual({ a: 1 });
  });

  it('may list its keys', () => {
    const record = z.record(z.enum(['a', 'b']), z.number());
    expect(record.parse({ a: 1, b: 2 })).toEqual({ a: 1, b: 2 });
    expect(issuesOf(record, { a: 1 })).toMatchObject([{ path: ['b'] }]);
    expect(issuesOf(record, { a: 1, b: 2, c: 3 })).toMatchObject([{ code: 'unrecognized_keys' }]);
  });
});

describe('json', () => {
  it('accepts what JSON.stringify gives back', () => {
    const value = JSON.parse('{"a":[1,"x",null,{"b":true}]}') as unknown;
    expect(z.json().parse(value)).toEqual(value);
    expect(z.json().safeParse(JSON.parse('{"a":[1e999]}')).success).toBe(false);
  });
});

describe('a described fault', () => {
  const schema = z.strictObject({ list: z.array(z.strictObject({ id: z.string() })) });

  it('names the place and what was expected', () => {
    expect(() => z.readAs(schema, { list: [{ id: 'a' }, { id: 1 }] })).toThrow(
      /^list\.1\.id: Invalid input: expected string, received number$/,
    );
    expect(() => z.readAs(schema, 1)).toThrow(/^Invalid input: expected object, received number$/);
  });

  it('is short, whatever the names are', () => {
    const long = { list: [], ['x'.repeat(100_000)]: 1, y: 1 };
    expect(() => z.readAs(schema, long)).toThrow(/^Unrecognized key: "x{120}\.\.\."$/);
    const record = z.record(z.string(), z.number());
    const fault = z.describeFault(record.safeParse({ ['x'.repeat(100_000)]: 'a' }).error!);
    expect(fault.place).toHaveLength(123);
  });
});
