import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { RecentMap } from './recent-map.js';

const keys = fc.nat(12).map(String);
const operation = fc.oneof(
  fc.record({ kind: fc.constant('get' as const), key: keys }),
  fc.record({ kind: fc.constant('set' as const), key: keys }),
  fc.record({ kind: fc.constant('delete' as const), key: keys }),
);

describe('a map of what is recent', () => {
  it('forgets what was not asked for longest, whatever happened before', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 8 }),
        fc.array(operation, { maxLength: 200 }),
        (limit, operations) => {
          const map = new RecentMap<string>(limit);
          let expected: string[] = []; // oldest first
          for (const { kind, key } of operations) {
            const isKnown = expected.includes(key);
            if (kind === 'get') expect(map.get(key)).toBe(isKnown ? key : undefined);
            if (kind === 'set') map.set(key, key);
            if (kind === 'delete') expect(map.delete(key)).toBe(isKnown);
            const others = expected.filter((other) => other !== key);
            if (kind === 'delete') expected = others;
            else if (kind === 'set' || isKnown) expected = [...others, key].slice(-limit);
            expect([...map.entries()].map(([name]) => name)).toEqual(expected);
          }
        },
      ),
    );
  });
});
