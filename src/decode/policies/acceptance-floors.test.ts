import { describe, expect, it } from 'vitest';
import { createRandom } from '../../core/random.js';
import { AcceptanceFloors } from './budgeted-drafting.js';

/** Requests of fifty steps, with a share each around the middle. */
function teach(shares: AcceptanceFloors, requests: number, middle: number, seed = 'usual'): void {
  const random = createRandom(seed);
  for (let request = 0; request < requests; request++)
    shares.learn('head', 50, Math.round(50 * (middle - 0.2 + 0.4 * random.next())));
}

describe('usual shares', () => {
  it('have no floor until enough requests have been seen, and know kinds apart', () => {
    const shares = new AcceptanceFloors();
    teach(shares, 19, 0.6);
    expect(shares.floorOf('head')).toBe(0);
    teach(shares, 10, 0.6, 'more');
    expect(shares.floorOf('head')).toBeGreaterThan(0);
    expect(shares.floorOf('ngram')).toBe(0);
  });

  it('put the floor below all of a few requests, and among the lowest of many', () => {
    const shares = new AcceptanceFloors();
    teach(shares, 24, 0.6);
    expect(shares.floorOf('head')).toBeLessThan(0.4);
    teach(shares, 476, 0.6, 'many');
    expect(shares.floorOf('head')).toBeGreaterThanOrEqual(0.4);
    expect(shares.floorOf('head')).toBeLessThan(0.45);
  });

  it('learn nothing from short requests', () => {
    const shares = new AcceptanceFloors();
    for (let request = 0; request < 100; request++) shares.learn('head', 15, 15);
    expect(shares.floorOf('head')).toBe(0);
  });

  it('are hardly moved by a flood of attacks, neither by those that are flagged nor by some that are not', () => {
    const shares = new AcceptanceFloors();
    teach(shares, 400, 0.6);
    const before = shares.floorOf('head');
    for (let attack = 0; attack < 400; attack++) shares.flag('head');
    expect(shares.floorOf('head')).toBeGreaterThan(before - 0.05);
    for (let attack = 0; attack < 4; attack++) shares.learn('head', 50, 0);
    expect(shares.floorOf('head')).toBeGreaterThan(before - 0.05);
  });

  it('follow the traffic', () => {
    const shares = new AcceptanceFloors();
    teach(shares, 512, 0.7);
    const before = shares.floorOf('head');
    teach(shares, 512, 0.4, 'other');
    expect(shares.floorOf('head')).toBeLessThan(before - 0.2);
  });
});
