import { describe, expect, it } from 'vitest';
import { weight, type TensorOf } from '../graph/tensor.js';
import { type DirectPart, type WeightStore, findWeight } from './weights.js';

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

describe('findWeight for weights of a checkpoint', () => {
  const joined = (columns: number): WeightStore => {
    const part = (shape: readonly number[]): DirectPart => ({
      ...{ dtype: 'bfloat16', shape, isTransposed: false, read: () => [] },
    });
    const parts = [part([2, 1]), part([2, columns])];
    return { kind: 'checkpoint', tensors: new Map([['w', { shape: [2, 3], parts }]]) };
  };

  it('takes them as float32, whatever they are stored as', () => {
    const store = joined(2);
    expect(findWeight([store], weight('w', [2, 3]) as TensorOf<'weight'>)).toBe(store);
    const half = weight('w', [2, 3], 'bfloat16') as TensorOf<'weight'>;
    expect(() => findWeight([store], half)).toThrow('is stored as float32, the graph expects bfloat16.');
  });

  it('refuses parts that do not make the weight', () => {
    expect(() => findWeight([joined(3)], weight('w', [2, 3]) as TensorOf<'weight'>)).toThrow(
      'Weight "w" has 32 bytes, its shape [2, 3] needs 24.',
    );
  });
});
