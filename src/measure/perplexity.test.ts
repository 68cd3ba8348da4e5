import { expect, it } from 'vitest';
import { perplexityOf } from './kept-class.js';

it('is the number of tokens that are equally likely', () => {
  expect(perplexityOf(new Float32Array(3 * 5), [0, 4, 2])).toBeCloseTo(5, 5);
});

it('is the geometric mean of the inverse probabilities', () => {
  const rows = [
    [0.5, 0.25, 0.25],
    [0.1, 0.1, 0.8],
  ];
  const logits = Float32Array.from(rows.flat(), (probability) => Math.log(probability) + 3);
  expect(perplexityOf(logits, [1, 0])).toBeCloseTo(Math.sqrt(4 * 10), 4);
});
