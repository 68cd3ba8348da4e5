import { describe, expect, it } from 'vitest';
import { lazily, lazilyBy } from './promises.js';

describe('lazily', () => {
  it('makes a value when it is first asked for, and once', async () => {
    let made = 0;
    const value = lazily(() => Promise.resolve(++made));
    expect(made).toBe(0);
    expect(await Promise.all([value(), value()])).toEqual([1, 1]);
    expect(await value()).toBe(1);
  });

  it('tells a failure to all who wait, and tries again for the next', async () => {
    let attempts = 0;
    const value = lazily(() => {
      attempts += 1;
      return attempts === 1 ? Promise.reject(new Error('no room')) : Promise.resolve(attempts);
    });
    const waiting = await Promise.allSettled([value(), value()]);
    expect(waiting.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    expect(await value()).toBe(2);
    expect(await value()).toBe(2);
  });

  it('tries again right where the failure is caught', async () => {
    let attempts = 0;
    const value = lazily(() =>
      ++attempts === 1 ? Promise.reject(new Error('no room')) : Promise.resolve(2),
    );
    expect(await value().catch(() => value())).toBe(2);
  });

  it('keeps no value of a function that throws at once', async () => {
    let attempts = 0;
    const value = lazily(() => {
      attempts += 1;
      if (attempts === 1) throw new Error('bad graph');
      return Promise.resolve(attempts);
    });
    expect(() => value()).toThrow('bad graph');
    expect(await value()).toBe(2);
  });
});

describe('lazilyBy', () => {
  it('keeps one value for each key', async () => {
    const made: string[] = [];
    const value = lazilyBy((key: string) => {
      made.push(key);
      return Promise.resolve(key.length);
    });
    expect(await Promise.all([value('a'), value('bb'), value('a')])).toEqual([1, 2, 1]);
    expect(made).toEqual(['a', 'bb']);
  });
});
