import { describe, expect, it } from 'vitest';
import { createRandom } from '../core/random.js';
import { mostLog, TenantCaution } from './tenant-caution.js';

/** Requests of one tenant, by how many times what rings for others their evidence is; how many of them ring. */
function countRings(caution: TenantCaution, evidence: readonly number[]): number {
  return evidence.filter((each) => {
    const hasRung = each >= caution.factor('t');
    caution.learn('t', hasRung);
    return hasRung;
  }).length;
}

describe('caution about a tenant', () => {
  it('keeps the rate for a tenant that asks a hard question over and over', () => {
    const random = createRandom(1, 'caution');
    const evidence = Array.from({ length: 5000 }, () => (random.next() < 1 / 6 ? 1 + 15 * random.next() : 0));
    const rings = countRings(new TenantCaution(0.008, 10), evidence);
    expect(evidence.filter((each) => each >= 1).length).toBeGreaterThan(700);
    expect(rings).toBeLessThanOrEqual(0.008 * 5000 + 2);
    expect(rings).toBeGreaterThan(10);
  });

  it('never hides a collapse, however often it rang', () => {
    const collapses = Array.from({ length: 200 }, () => Math.exp(mostLog));
    expect(countRings(new TenantCaution(0.008, 10), collapses)).toBe(200);
  });

  it('is of one tenant, passes, and goes when the tenant itself rings', () => {
    const caution = new TenantCaution(0.01, 10);
    caution.learn('t', true);
    expect(caution.factor('t')).toBeGreaterThan(10);
    expect(caution.factor('other')).toBe(1);
    const copy = new TenantCaution(0.01, 10);
    copy.restore(caution.save());
    expect(copy.factor('t')).toBe(caution.factor('t'));
    for (let request = 0; request < 100; request++) caution.learn('t', false);
    expect(caution.factor('t')).toBe(1);
    expect(caution.save()).toEqual([]);
    copy.forget('t');
    expect(copy.factor('t')).toBe(1);
  });
});
