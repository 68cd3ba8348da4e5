import { describe, expect, it } from 'vitest';
import { addDimensions, multiplyDimensions, symbol } from '../graph/dimension.js';
import { add } from '../graph/operations/elementwise.js';
import { input, weight } from '../graph/operations/leaves.js';
import type { TensorOf } from '../graph/tensor.js';
import type { InputDescription } from './program.js';
import {
  bindInputs,
  checkTypes,
  findWeight,
  float32,
  floatsOf,
  int32,
  integersOf,
  listInputs,
} from './program.js';
import type { WeightStore } from './weights.js';

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

describe('findWeight', () => {
  const store = (name: string, shape: readonly number[], length: number): WeightStore => ({
    kind: 'memory',
    tensors: new Map([[name, { shape, data: new Float32Array(length) }]]),
  });
  const wanted = weight('w', [2, 3]) as TensorOf<'weight'>;

  it('takes the first store that holds the name', () => {
    const [first, second] = [store('w', [2, 3], 6), store('w', [2, 3], 6)];
    expect(findWeight([store('v', [1], 1), first, second], wanted)).toBe(first);
  });

  it.each([
    [
      'a missing weight',
      [store('v', [1], 1)],
      'The graph reads a weight "w" that none of the given weights hold.',
    ],
    ['another shape', [store('w', [3, 2], 6)], 'Weight "w" has shape [3, 2], the graph expects [2, 3].'],
    ['too few bytes', [store('w', [2, 3], 5)], 'Weight "w" has 20 bytes, its shape [2, 3] needs 24.'],
  ] as const)('refuses %s', (_, stores, message) => {
    expect(() => findWeight(stores, wanted)).toThrow(message);
  });
});

describe('findWeight for types of half the size', () => {
  const halves = (dtype: 'bfloat16' | 'float16', length: number): WeightStore => ({
    kind: 'memory',
    tensors: new Map([['w', { shape: [2, 3], data: new Uint16Array(length), dtype }]]),
  });
  const wanted = weight('w', [2, 3], 'bfloat16') as TensorOf<'weight'>;

  it('takes the type that the graph names', () => {
    const store = halves('bfloat16', 6);
    expect(findWeight([store], wanted)).toBe(store);
  });

  it.each([
    ['the other one', halves('float16', 6), 'is stored as float16, the graph expects bfloat16.'],
    [
      'float32',
      { kind: 'memory', tensors: new Map([['w', { shape: [2, 3], data: new Float32Array(6) }]]) },
      'is stored as float32, the graph expects bfloat16.',
    ],
    ['too few bytes', halves('bfloat16', 5), 'has 10 bytes, its shape [2, 3] needs 12.'],
  ] as const)('refuses %s', (_, store, message) => {
    expect(() => findWeight([store], wanted)).toThrow(`Weight "w" ${message}`);
  });
});

describe('reading outputs', () => {
  const outputs = { loss: zeros(1), top: int32([4, 2]) };

  it('gives the array of the right type', () => {
    expect(floatsOf(outputs, 'loss')).toBe(outputs.loss.data);
    expect(integersOf(outputs, 'top')).toBe(outputs.top.data);
  });

  it('refuses another name or type', () => {
    expect(() => floatsOf(outputs, 'top')).toThrow('no float32 output "top"; it has loss, top.');
    expect(() => integersOf(outputs, 'gone')).toThrow('no int32 output "gone"; it has loss, top.');
  });
});
