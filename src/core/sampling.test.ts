import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { chiSquareExcess } from '../../test/chi-square.js';
import { createRandom, drawFrom, drawWithoutReplacement } from './random.js';
import { sum } from './vector.js';
import type { SamplingOptions } from './sampling.js';
import { toDistribution } from './sampling.js';

const logitsOf = (...distribution: number[]) => Float32Array.from(distribution, Math.log);
const expectDistribution = (distribution: Float32Array, expected: readonly number[]) => {
  expect(distribution).toHaveLength(expected.length);
  expected.forEach((probability, token) => {
    expect(distribution[token]).toBeCloseTo(probability, 6);
  });
};

describe('toDistribution', () => {
  const logits = logitsOf(0.1, 0.4, 0.05, 0.25, 0.2);

  it.each<[string, SamplingOptions, number[]]>([
    ['temperature 1', { temperature: 1 }, [0.1, 0.4, 0.05, 0.25, 0.2]],
    ['temperature 0', { temperature: 0, topK: 3, topP: 0.5 }, [0, 1, 0, 0, 0]],
    // Squares 0.01, 0.16, 0.0025, 0.0625, 0.04 over their sum 0.275.
    ['temperature 0.5', { temperature: 0.5 }, [0.0363636, 0.5818182, 0.0090909, 0.2272727, 0.1454545]],
    ['top-k 2', { temperature: 1, topK: 2 }, [0, 0.4 / 0.65, 0, 0.25 / 0.65, 0]],
    ['top-k 1', { temperature: 1, topK: 1 }, [0, 1, 0, 0, 0]],
    ['top-k beyond the vocabulary', { temperature: 1, topK: 9 }, [0.1, 0.4, 0.05, 0.25, 0.2]],
    ['top-p inside the second token', { temperature: 1, topP: 0.6 }, [0, 0.4 / 0.65, 0, 0.25 / 0.65, 0]],
    ['top-p below the first token', { temperature: 1, topP: 0.01 }, [0, 1, 0, 0, 0]],
    ['top-p 1', { temperature: 1, topP: 1 }, [0.1, 0.4, 0.05, 0.25, 0.2]],
    // top-k 3 leaves 0.4, 0.25, 0.2 over 0.85; 0.75 of that is reached with two tokens (0.7647), not three.
    ['top-p on what top-k left', { temperature: 1, topK: 3, topP: 0.75 }, [0, 0.4 / 0.65, 0, 0.25 / 0.65, 0]],
    // The squares' two largest hold 0.809, so 0.8 keeps two tokens; without the temperature it would keep three.
    ['top-p after temperature', { temperature: 0.5, topP: 0.8 }, [0, 0.16 / 0.2225, 0, 0.0625 / 0.2225, 0]],
  ])('%s', (_, options, expected) => {
    expectDistribution(toDistribution(logits, options), expected);
  });

  it('keeps the lower index of a tie', () => {
    const flat = new Float32Array(4);
    expectDistribution(toDistribution(flat, { temperature: 1, topK: 2 }), [0.5, 0.5, 0, 0]);
    expectDistribution(toDistribution(flat, { temperature: 1, topP: 0.5 }), [0.5, 0.5, 0, 0]);
    expectDistribution(toDistribution(flat, { temperature: 0 }), [1, 0, 0, 0]);
  });

  it('writes where it is told and leaves the logits alone', () => {
    const before = logits.slice();
    const out = new Float32Array(5).fill(9);
    expect(toDistribution(logits, { temperature: 1, topK: 2 }, out)).toBe(out);
    expect(logits).toEqual(before);
    expectDistribution(out, [0, 0.4 / 0.65, 0, 0.25 / 0.65, 0]);
  });

  it('keeps masked tokens at 0 and survives low temperatures', () => {
    expectDistribution(toDistribution(Float32Array.of(-Infinity, 0, 0), { temperature: 1 }), [0, 0.5, 0.5]);
    expectDistribution(
      toDistribution(Float32Array.of(5, 4, -90), { temperature: 1e-6, topP: 0.9 }),
      [1, 0, 0],
    );
  });

  it('finds a nucleus that is larger than its first guess', () => {
    const flat = new Float32Array(5000);
    const distribution = toDistribution(flat, { temperature: 1, topP: 0.5 });
    expect(distribution.findLastIndex((probability) => probability > 0)).toBeCloseTo(2500, -1);
    expect(sum(distribution)).toBeCloseTo(1, 5);
  });

  it('gives the distribution a full sort gives', () => {
    // Eighths: equal scores tie, and different ones stay different as 32-bit probabilities.
    const score = fc.integer({ min: -48, max: 48 }).map((eighths) => eighths / 8);
    const scores = fc.array(score, { minLength: 1, maxLength: 300 });
    const settings = fc.record({
      temperature: fc.double({ min: 0.2, max: 3, noNaN: true }),
      topK: fc.integer({ min: 1, max: 320 }),
      topP: fc.double({ min: 0.01, max: 1, noNaN: true }),
    });
    fc.assert(
      fc.property(scores, settings, (values, options) => {
        const some = Float32Array.from(values);
        const distribution = toDistribution(some, options);
        const order = [...some.keys()].sort((a, b) => some[b]! - some[a]! || a - b).slice(0, options.topK);
        const weights = order.map((token) =>
          Math.exp((some[token]! - some[order[0]!]!) / options.temperature),
        );
        const total = sum(weights);
        const support = order.filter((token) => distribution[token]! > 0);
        expect(order.slice(0, support.length)).toEqual(support);
        expect(distribution.reduce((count, probability) => count + (probability > 0 ? 1 : 0), 0)).toBe(
          support.length,
        );
        const massOf = (size: number) => sum(weights.slice(0, size)) / total;
        expect(massOf(support.length)).toBeGreaterThanOrEqual(Math.min(options.topP, 1) - 1e-5);
        expect(massOf(support.length - 1)).toBeLessThan(options.topP + 1e-5);
        support.forEach((token, rank) => {
          expect(distribution[token]).toBeCloseTo(weights[rank]! / total / massOf(support.length), 5);
        });
      }),
      { numRuns: 200, seed: 1 },
    );
  });

  it.each([
    [{ temperature: -1 }, 'The temperature is -1'],
    [{ temperature: Number.NaN }, 'The temperature is NaN'],
    [{ temperature: Infinity }, 'The temperature is Infinity'],
    [{ temperature: 1, topK: 0 }, 'top-k is 0'],
    [{ temperature: 1, topK: 2.5 }, 'top-k is 2.5'],
    [{ temperature: 1, topP: 0 }, 'top-p is 0'],
    [{ temperature: 1, topP: 1.1 }, 'top-p is 1.1'],
    [{ temperature: 1, topP: Number.NaN }, 'top-p is NaN'],
  ])('refuses %j', (options, message) => {
    expect(() => toDistribution(logits, options)).toThrow(message);
  });

  it.each([
    [[0, Number.NaN, 1], 'contain NaN'],
    [[Number.NaN, Number.NaN], 'The largest logit is NaN'],
    [[-Infinity, -Infinity], 'The largest logit is -Infinity'],
    [[0, Infinity], 'The largest logit is Infinity'],
  ])('refuses the logits %j', (values, message) => {
    expect(() => toDistribution(Float32Array.from(values), { temperature: 1 })).toThrow(message);
  });
});

describe('drawFrom', () => {
  it('follows the distribution and never draws what is impossible', () => {
    const random = createRandom('draw');
    const distribution = Float32Array.of(0, 0.5, 0, 0.2, 0.3, 0);
    const counts = new Int32Array(6);
    for (let draw = 0; draw < 50_000; draw++) counts[drawFrom(distribution, random)]!++;
    expect(chiSquareExcess(counts, [0, 0.5, 0, 0.2, 0.3, 0])).toBeLessThan(1);
  });

  it('falls back to the last possible token where rounding leaves a gap', () => {
    const almostOne = { ...createRandom(0), next: () => 1 - 2 ** -53 };
    expect(drawFrom(Float32Array.of(0.5, 0.4999, 0), almostOne)).toBe(1);
    expect(() => drawFrom(new Float32Array(3), almostOne)).toThrow('every probability is 0');
  });

  it('draws without replacement: the second from the distribution without the first', () => {
    const random = createRandom('siblings');
    const distribution = [0.5, 0.3, 0.2];
    const counts = new Int32Array(9);
    for (let draw = 0; draw < 50_000; draw++) {
      const [first, second] = drawWithoutReplacement(Float32Array.from(distribution), 2, random);
      counts[first! * 3 + second!]!++;
    }
    const expected = distribution.flatMap((first, i) =>
      distribution.map((second, j) => (i === j ? 0 : (first * second) / (1 - first))),
    );
    expect(chiSquareExcess(counts, expected)).toBeLessThan(1);
  });

  it('draws fewer siblings than asked where the distribution has fewer', () => {
    const distribution = Float32Array.of(0, 0.25, 0.75);
    expect(drawWithoutReplacement(distribution, 5, createRandom(1)).sort()).toEqual([1, 2]);
    expect([...distribution]).toEqual([0, 0.25, 0.75]);
  });

  it('uses a random number for each sibling asked for, also for those that are not possible', () => {
    const [random, other] = [createRandom(1), createRandom(1)];
    drawWithoutReplacement(Float32Array.of(0, 0.25, 0.75), 5, random);
    for (let place = 0; place < 5; place++) other.next();
    expect(random.next()).toBe(other.next());
  });
});
