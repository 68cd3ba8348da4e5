/** Verdicts on searches that are worth no more than an undirected one, and on searches that are. */
import { expect, it } from 'vitest';
import { byTier } from '../../../test/support/tier.js';
import { createSampleAudit } from '../../../test/support/report/sample-audit.js';
import { judge } from './verdict.js';

const seeds = byTier({ quick: [100, 101, 102, 103, 104, 105], full: listSeeds(106, 40) });

function listSeeds(first: number, count: number): readonly number[] {
  return Array.from({ length: count }, (_, index) => first + index);
}

it('a blind search is called fragile no more often than the level says, however far it falls', () => {
  const results = seeds.map((seed) => createSampleAudit({ seed, blind: true }).result);
  const drops = results.map(({ drafters }) => drafters[0]!.summary.drop.estimate);
  expect(drops.filter((drop) => drop > 0.2).length).toBeGreaterThanOrEqual(0.8 * seeds.length);
  const called = results.filter((result) => ['fragile', 'collapsed'].includes(judge(result).level));
  expect(called.length).toBeLessThanOrEqual(0.05 * seeds.length);
});

it('a search that is worth more is told apart', () => {
  const some = seeds.slice(0, 10);
  const verdicts = some.map((seed) => judge(createSampleAudit({ seed }).result));
  const collapsed = verdicts.filter(({ level }) => level === 'collapsed');
  expect(collapsed.length).toBeGreaterThanOrEqual(0.9 * some.length);
});
