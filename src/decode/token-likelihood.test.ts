import { expect, it } from 'vitest';
import { createLikelihoodReader, scoreToken } from './answer.js';

it('likelihoods are logarithms of the distribution at temperature 1', () => {
  // numpy: x - np.log(np.exp(x).sum()) for x = [1, 3, 2]
  const { logprob, top } = scoreToken(Float32Array.of(1, 3, 2), 2, 2);
  expect(logprob).toBeCloseTo(-1.407606, 5);
  expect(top.map(({ id }) => id)).toEqual([1, 2]);
  expect(top[0]!.logprob).toBeCloseTo(-0.407606, 5);
  const shifted = scoreToken(Float32Array.of(1001, 1003, -Infinity), 2, 3);
  expect(shifted.logprob).toBe(-Infinity);
  expect(Math.exp(shifted.top[0]!.logprob) + Math.exp(shifted.top[1]!.logprob)).toBeCloseTo(1, 6);
});

it('the reader takes the row that was asked for, and asks for nothing unless told', () => {
  const logits = Float32Array.of(0, 0, 0, Math.log(3));
  const reader = createLikelihoodReader(0, 2);
  const result = { logits } as Parameters<typeof reader.read>[0];
  expect(reader.want).toEqual(['logits']);
  expect(reader.read(result, 0, 1)!.logprob).toBeCloseTo(Math.log(0.5), 6);
  expect(reader.read(result, 1, 1)!.logprob).toBeCloseTo(Math.log(0.75), 6);
  const silent = createLikelihoodReader(undefined, 2);
  expect([silent.want, silent.read(result, 0, 1)]).toEqual([[], undefined]);
});
