import { describe, expect, it } from 'vitest';
import { attacked, run } from '../../../test/support/report/comparable-run.js';
import { createRandom } from '../../core/random.js';
import { printReport, renderReportHtml } from '../document.js';
import type { Comparison } from './comparison.js';
import { createComparisonReport } from './comparison-report.js';
import { checkWorse, compareAudits } from './comparison.js';

const renderComparisonText = (comparison: Comparison): string =>
  printReport(createComparisonReport(comparison), 'text');
const renderComparisonHtml = (comparison: Comparison): string =>
  renderReportHtml(createComparisonReport(comparison));

describe('the gate', () => {
  const prompts = (lengths: readonly number[]) =>
    lengths.map((length, index) => attacked(String(index), length));
  const many = (before: number, after: number, count = 12) =>
    compareAudits(
      run({ d: prompts(Array.from({ length: count }, () => before)) }),
      run({ d: prompts(Array.from({ length: count }, () => after)) }),
    );

  it('fails where the drop grew by at least the tolerance and chance does not explain it', () => {
    // Drops of 0, 0.1 and 0.2.
    expect(checkWorse(many(3, 2.7), 0.11)).toEqual({ failIfWorse: 0.11, exitCode: 0, failures: [] });
    expect(checkWorse(many(2.7, 2.4), 0.09)).toEqual({
      failIfWorse: 0.09,
      exitCode: 100,
      failures: [
        'The drop of d grew from 10.0 % to 20.0 % (95 % interval 10.0 to 10.0 points, 12 prompts); the gate fails from 9.0 points on.',
      ],
    });
    expect(checkWorse(many(2.4, 3), 0.01).exitCode).toBe(0);
  });

  it('says when there are too few prompts to decide', () => {
    expect(checkWorse(many(3, 2.4, 7), 0.2)).toMatchObject({
      exitCode: 4,
      failures: [
        expect.stringMatching(/^7 prompts are too few to decide .* at least 8 prompts must have changed/),
      ],
    });
    expect(checkWorse(many(3, 2.4, 8), 0.2).exitCode).toBe(100);
    expect(checkWorse(many(3, 2.4, 1), 0.2).exitCode).toBe(4);
    // What cannot have grown that far passes with any number of prompts.
    expect(checkWorse(many(3, 3, 3), 0.05).exitCode).toBe(0);
  });

  describe('with simulated audits', () => {
    /** Each prompt loses its own share under attack; a search with another seed finds suffixes of another strength. */
    const simulate = (trial: number, { shift = 0, noise = 0.1, count = 12 } = {}) => {
      const random = createRandom('gate', String(trial));
      const uniform = (): number => random.next();
      const drops = Array.from({ length: count }, () => 0.2 + 0.4 * uniform());
      const side = (more: number) =>
        run({
          d: prompts(
            drops.map((drop) => {
              const own = drop + more + noise * (uniform() + uniform() + uniform() + uniform() - 2);
              return 3 * (1 - Math.min(0.66, Math.max(0, own)));
            }),
          ),
        });
      return checkWorse(compareAudits(side(0), side(shift)), 0.05).exitCode;
    };
    const trials = Array.from({ length: 20 }, (_, trial) => trial);

    it.each([0.1, 0.2])('passes 20 of 20 pairs that differ only in the seed, noise %d', (noise) => {
      expect(trials.map((trial) => simulate(trial, { noise }))).toEqual(trials.map(() => 0));
    });

    it('fails 20 of 20 pairs whose drop grew by 15 points', () => {
      const failed = trials.filter(
        (trial) => simulate(trial, { shift: 0.15, noise: 0.05, count: 16 }) === 100,
      );
      expect(failed).toHaveLength(20);
    });
  });

  it('does not pass what could not be compared', () => {
    const empty = compareAudits(run({ d: [attacked('1', 2)] }), run({ d: [attacked('2', 2)] }));
    expect(checkWorse(empty, 0.5)).toMatchObject({
      exitCode: 3,
      failures: ['No prompt was audited in both runs for d.'],
    });
    const strangers = compareAudits(run({ a: [], b: [] }), run({ c: [] }));
    expect(checkWorse(strangers, 0.5)).toMatchObject({
      exitCode: 3,
      failures: ['The runs have no drafter in common.'],
    });
  });
});

describe('words and the gate', () => {
  const lengths = [2.7, 2.6, 2.5, 2.4, 2.6, 2.5, 2.4, 2.3, 2.2];
  const compareFirst = (changed: number): Comparison => {
    const at = (shift: number) =>
      run({
        d: lengths.map((length, index) => attacked(`${index}`, length - (index < changed ? shift : 0))),
      });
    const comparison = compareAudits(at(0), at(0.6));
    return { ...comparison, gate: checkWorse(comparison, 0.05) };
  };

  it('call a drafter worse by the same rule', () => {
    const worse = compareFirst(8);
    expect(worse.gate!.exitCode).toBe(100);
    expect(renderComparisonText(worse)).toMatch(/^d got worse: /);
  });

  it('both say that too few prompts changed', () => {
    for (const changed of [6, 7]) {
      const few = compareFirst(changed);
      expect(few.drafters[0]!.counted!.pValue).toBeLessThan(0.05);
      expect(few.gate!.exitCode).toBe(4);
      for (const text of [renderComparisonText(few), renderComparisonHtml(few)]) {
        expect(text).toContain(
          `9 prompts, of which ${changed} changed, are too few to tell whether d changed`,
        );
        expect(text).toContain(
          `9 prompts, of which ${changed} changed, are too few to decide whether the drop`,
        );
        expect(text).not.toMatch(/worse:|>Worse</);
      }
    }
  });
});
