import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { removeField, setField } from './json-edit.js';

describe('setField', () => {
  it('keeps every other byte', () => {
    expect(setField('{ "seed": 12345678901234567890, "t": 1.0 }', 'a', 'true')).toBe(
      '{"a":true, "seed": 12345678901234567890, "t": 1.0 }',
    );
    expect(setField('{}', 'a', '1')).toBe('{"a":1}');
  });

  it('replaces a field wherever it occurs, and only at the top', () => {
    const text = '{"a": [1, "]"], "b": {"a": 2}, "\\u0061": null}';
    expect(setField(text, 'a', 'true')).toBe('{"a": true, "b": {"a": 2}, "\\u0061": true}');
  });
});

describe('removeField', () => {
  it.each([
    ['{"a":1,"b":2}', ['a'], '{"b":2}'],
    ['{"a":1,"b":2}', ['b'], '{"a":1}'],
    ['{"a":1}', ['a'], '{}'],
    ['{"x":{"y":{"z":"}"}},"b":2}', ['x', 'y'], '{"b":2}'],
    ['{"x":{"y":1, "z":2},"b":2}', ['x', 'y'], '{"x":{"z":2},"b":2}'],
    ['{"x":null,"b":2}', ['x', 'y'], '{"x":null,"b":2}'],
    ['{"b":2}', ['x'], '{"b":2}'],
  ])('%s without %j is %s', (text, path, expected) => {
    expect(removeField(text, path)).toBe(expected);
  });
});

it('undoes what it did, on any object', () => {
  fc.assert(
    fc.property(
      fc.dictionary(fc.string(), fc.jsonValue()),
      fc.string(),
      fc.jsonValue(),
      (object, key, value) => {
        const text = JSON.stringify(object);
        const changed = setField(text, key, JSON.stringify(value));
        expect(JSON.parse(changed)).toEqual(JSON.parse(JSON.stringify({ ...object, [key]: value })));
        if (!Object.hasOwn(object, key)) expect(removeField(changed, [key])).toBe(text);
      },
    ),
    { numRuns: 300, seed: 13 },
  );
});
