import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { planMemory } from './run-layout.js';

const lifetime = fc
  .record({ bytes: fc.nat(5000), from: fc.nat(20), length: fc.nat(10) })
  .map(({ bytes, from, length }) => ({ bytes, from, until: from + length }));

describe('planMemory', () => {
  it('never lays two values that live at the same time over each other', () => {
    fc.assert(
      fc.property(fc.array(lifetime, { maxLength: 30 }), (lifetimes) => {
        const { offsets, totalBytes } = planMemory(lifetimes);
        lifetimes.forEach((a, i) => {
          expect(offsets[i]! % 256).toBe(0);
          expect(offsets[i]! + a.bytes).toBeLessThanOrEqual(totalBytes);
          lifetimes.forEach((b, j) => {
            if (i >= j || a.from > b.until || b.from > a.until) return;
            const apart = offsets[i]! + a.bytes <= offsets[j]! || offsets[j]! + b.bytes <= offsets[i]!;
            expect(apart).toBe(true);
          });
        });
      }),
    );
  });

  it('uses memory again once nobody reads what lay there', () => {
    const chain = Array.from({ length: 10 }, (_, step) => ({ bytes: 1024, from: step, until: step + 1 }));
    expect(planMemory(chain).totalBytes).toBe(2048);
    expect(planMemory([]).totalBytes).toBe(0);
  });
});
