import { describe, expect, it } from 'vitest';
import { StepPrices } from './step-prices.js';

const drafted = { draftMs: 6, verifyMs: 12 };
const plain = { draftMs: 0, verifyMs: 10 };

/** Pairs of a step with four draft tokens and a plain one, at a pace. */
function measure(prices: StepPrices, pairs: number, pace = 1): number[] {
  return Array.from({ length: pairs }, () => {
    const cost = prices.learn(0, { draftMs: 6 * pace, verifyMs: 12 * pace }, 4, 0);
    prices.learn(undefined, { draftMs: 0, verifyMs: 10 * pace }, 0, 0);
    return cost;
  });
}

describe('prices of steps', () => {
  it('are those of passes in plain steps, at any pace', () => {
    const prices = new StepPrices();
    measure(prices, 3);
    expect(measure(prices, 2)).toEqual([1.8, 1.8].map((cost) => expect.closeTo(cost) as number));
    expect(prices.plainMs).toBeCloseTo(10);
    // Everything takes five times as long: the first step is compared with the pace before it, the others are not.
    const [first, ...others] = measure(prices, 3, 5);
    expect(first).toBeGreaterThan(1.8);
    expect(others).toEqual([1.8, 1.8].map((cost) => expect.closeTo(cost) as number));
    expect(prices.priceOf(0)).toBeCloseTo(1.8);
  });

  it('make the first step pay when it is known what it cost', () => {
    const prices = new StepPrices();
    expect(prices.priceOf(0)).toBeUndefined();
    const said = prices.learn(0, { draftMs: 6, verifyMs: 40 }, 4, 0);
    expect(said).toBeCloseTo(1.15); // as if the verifying pass were a plain one
    expect(prices.learn(undefined, plain, 0, 0)).toBe(1);
    // Of its verifying pass, which was a long one, nothing counts but that it was one.
    expect(prices.learn(0, drafted, 4, 0)).toBeCloseTo(1.8 + (1.8 - 1.15));
    expect(prices.priceOf(0)).toBeCloseTo(1.8);
  });

  it('take a plain step that was slow by chance for no measure', () => {
    const prices = new StepPrices();
    measure(prices, 2);
    prices.learn(0, drafted, 4, 0);
    prices.learn(undefined, { draftMs: 0, verifyMs: 90 }, 0, 0);
    prices.learn(0, drafted, 4, 0);
    expect(prices.learn(0, drafted, 4, 0)).toBeCloseTo(1.8);
  });

  it('never take a pass over several rows for cheaper than one over a single row', () => {
    const prices = new StepPrices();
    for (let pair = 0; pair < 4; pair++) {
      prices.learn(0, { draftMs: 5, verifyMs: 5 }, 4, 0);
      prices.learn(undefined, plain, 0, 0);
    }
    expect(prices.learn(0, { draftMs: 0, verifyMs: 5 }, 4, 0)).toBe(1);
  });

  it('tell apart what a drafter has to read first', () => {
    const prices = new StepPrices();
    measure(prices, 3);
    expect(prices.readingOf(0)).toBe(0);
    prices.learn(0, { draftMs: 26, verifyMs: 12 }, 4, 10);
    expect(prices.readingOf(0)).toBeCloseTo(0.2);
    expect(prices.priceOf(0)).toBeCloseTo(1.8);
  });

  it('count a step that proposed nothing as a plain one, and what was spent in vain', () => {
    const prices = new StepPrices();
    measure(prices, 3);
    expect(prices.learn(0, { draftMs: 1, verifyMs: 10 }, 0, 0)).toBeCloseTo(1.1);
  });
});
