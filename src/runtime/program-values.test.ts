import { describe, expect, it } from 'vitest';
import { addDimensions, multiplyDimensions, symbol } from '../graph/dimension.js';
import { add } from '../graph/operations/elementwise.js';
import { input } from '../graph/tensor.js';
import { bindInputs, checkTypes, listInputs } from './program-values.js';
import { type InputDescription, float32, int32 } from './program.js';

const [past, fresh] = [symbol('past'), symbol('new')];
const describeInput = (name: string, ...shape: InputDescription['shape']): InputDescription => ({
  name,
  shape,
  dtype: 'float32',
});
const zeros = (...shape: number[]) => float32(new Float32Array(shape.reduce((a, b) => a * b, 1)), shape);

describe('bindInputs', () => {
  it('reads symbols off the shapes, whichever input comes first', () => {
    const mask = describeInput('mask', fresh, addDimensions(past, fresh));
    const cache = describeInput('cache', past, 4);
    const bindings = bindInputs([mask, cache], { mask: zeros(2, 5), cache: zeros(3, 4) });
    expect([...bindings].sort()).toEqual([
      ['new', 2],
      ['past', 3],
    ]);
  });

  it('takes empty inputs, whose lengths count as any other', () => {
    const cache = describeInput('cache', past, 4);
    expect(bindInputs([cache], { cache: zeros(0, 4) }).get('past')).toBe(0);
    expect(() => bindInputs([cache], { cache: float32(new Float32Array(4), [0, 4]) })).toThrow(
      'Input "cache" has shape [0, 4] and 4 values, expected 0 values.',
    );
  });

  it.each([
    ['a missing input', [describeInput('x', 2)], {}, 'The program needs an input "x".'],
    ['another length', [describeInput('x', 2)], { x: zeros(3) }, 'Input "x" has shape [3], expected [2].'],
    [
      'another rank',
      [describeInput('x', 2, past)],
      { x: zeros(2) },
      'Input "x" has shape [2], expected [2, past].',
    ],
    [
      'a symbol of two lengths',
      [describeInput('x', past), describeInput('y', past)],
      { x: zeros(2), y: zeros(3) },
      'Input "y" has shape [3], expected [past] with past = 2.',
    ],
    [
      'a sum that does not add up',
      [describeInput('x', past), describeInput('y', addDimensions(past, 1))],
      { x: zeros(2), y: zeros(2) },
      'Input "y" has shape [2], expected [past + 1] with past = 2.',
    ],
    [
      'a symbol that stands nowhere alone',
      [describeInput('x', multiplyDimensions(past, 2))],
      { x: zeros(2) },
      'Input "x" has shape [2], expected [2*past].',
    ],
    [
      'too few values',
      [describeInput('x', 2, 2)],
      { x: float32(new Float32Array(3), [2, 2]) },
      'Input "x" has shape [2, 2] and 3 values, expected 4 values.',
    ],
  ] as const)('refuses %s', (_, descriptions, values, message) => {
    expect(() => bindInputs(descriptions, values)).toThrow(
      expect.objectContaining({ name: 'MistletoeError', code: 'runtime', message }) as Error,
    );
  });
});

describe('checkTypes', () => {
  it.each([
    ['float32', int32([1]), 'int32'],
    ['int32', zeros(1), 'float32'],
    ['bool', zeros(1), 'float32'],
    ['float32', { shape: [1], data: new Uint8Array(1) }, 'bool'],
    ['bfloat16', zeros(1), 'float32'],
    ['float16', { shape: [1], data: new Uint8Array(1) }, 'bool'],
    ['bool', { shape: [1], data: new Uint16Array(1) }, '16-bit'],
  ] as const)('refuses other values than %s', (dtype, value, given) => {
    expect(() => {
      checkTypes([{ name: 'x', shape: [1], dtype }], { x: value });
    }).toThrow(`Input "x" holds ${given} values, expected ${dtype}.`);
  });
});

describe('listInputs', () => {
  it('lists each name once', () => {
    const inputs = listInputs({
      sum: add(input('x', [past]), input('x', [past])),
      other: input('y', [2], 'int32'),
    });
    expect(inputs.map(({ name, dtype }) => [name, dtype])).toEqual([
      ['x', 'float32'],
      ['y', 'int32'],
    ]);
  });

  it('refuses one name for two shapes or types', () => {
    const declared = input('x', [2]);
    expect(() => listInputs({ a: declared, b: input('x', [3]) })).toThrow(
      'Input "x" is declared as float32 [2] and as float32 [3].',
    );
    expect(() => listInputs({ a: declared, b: input('x', [2], 'int32') })).toThrow(
      'Input "x" is declared as float32 [2] and as int32 [2].',
    );
  });
});
