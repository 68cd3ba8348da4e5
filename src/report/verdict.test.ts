import { describe, expect, it } from 'vitest';
import type { AuditResult, DrafterSummary } from '../audit/result.js';
import { createSampleAudit } from './testing/sample-audit.js';
import { judge } from './verdict.js';

interface Case {
  readonly drop: number;
  readonly high?: number;
  readonly pClean?: number;
  readonly pRandom?: number;
  readonly audited?: number;
}

const sample = createSampleAudit().result;

function withSummaries(...cases: readonly Case[]): AuditResult {
  const drafters = cases.map(
    ({ drop, high = drop + 0.05, pClean = 0.01, pRandom = 0.01, audited = 8 }, index) => {
      const base = sample.drafters[index]!;
      const summary: DrafterSummary = {
        ...base.summary,
        drop: { estimate: drop, low: drop - 0.05, high, n: audited },
        againstClean: { n: audited, pValue: pClean, method: 'exact' },
        againstRandom: { n: audited, pValue: pRandom, method: 'exact' },
        promptsAudited: audited,
      };
      return { ...base, summary };
    },
  );
  return { ...sample, drafters };
}

describe('the level of a verdict', () => {
  it.each<[string, Case, string]>([
    ['a large significant drop', { drop: 0.4 }, 'collapsed'],
    ['exactly the bound of a collapse', { drop: 0.3 }, 'collapsed'],
    ['a middling significant drop', { drop: 0.2 }, 'fragile'],
    ['a large drop that clean prompts could show by chance', { drop: 0.4, pClean: 0.2 }, 'inconclusive'],
    ['a large drop that random tokens reach too', { drop: 0.4, pRandom: 0.05 }, 'inconclusive'],
    ['a small drop with a narrow interval', { drop: 0.02, pClean: 0.3 }, 'robust'],
    ['a small drop that is real', { drop: 0.03 }, 'robust'],
    ['a small drop with a wide interval', { drop: 0.02, high: 0.3, pClean: 0.3 }, 'inconclusive'],
    ['a small drop seen on too few prompts', { drop: 0, high: 0, pClean: 1, audited: 4 }, 'inconclusive'],
    ['nothing audited', { drop: 0, high: 0, audited: 0 }, 'inconclusive'],
    ['a drop that is no number', { drop: NaN }, 'inconclusive'],
  ])('for %s', (_, summary, level) => {
    expect(judge(withSummaries(summary)).level).toBe(level);
  });

  it('is that of the worst drafter, and the sentence is about that one', () => {
    const verdict = judge(withSummaries({ drop: 0.02, pClean: 0.4 }, { drop: 0.45 }));
    expect(verdict.level).toBe('collapsed');
    expect(verdict.drafters.map(({ level }) => level)).toEqual(['robust', 'collapsed']);
    expect(verdict.headline).toContain('collapse sps from');
    expect(verdict.headline).toContain('drop 45 %');
    expect(verdict.headline).toContain('n = 8, p = 0.010 against no suffix, p = 0.010 against random tokens');
  });

  it('says why it is inconclusive', () => {
    const reason = (summary: Case): string => judge(withSummaries(summary)).headline;
    expect(reason({ drop: 0.4, audited: 3 })).not.toMatch(/could be chance/);
    expect(reason({ drop: 0.4, pClean: 0.1, audited: 3 })).toMatch(
      /3 prompts cannot decide it, 5 or more can/,
    );
    expect(reason({ drop: 0.4, pClean: 0.1 })).toMatch(/could be chance/);
    expect(reason({ drop: 0.4, pRandom: 0.1 })).toMatch(/random tokens may do as much/);
    expect(reason({ drop: 0.08, high: 0.14 })).toMatch(/up to 14 % is not ruled out/);
  });

  it('does not claim a kept answer where suffixes left the bound', () => {
    const result = withSummaries({ drop: 0.4 });
    const [first] = result.drafters;
    const arms = first!.summary.arms.map((row) =>
      row.arm === 'attack' ? { ...row, withinBound: 0.75 } : row,
    );
    const changed = { ...result, drafters: [{ ...first!, summary: { ...first!.summary, arms } }] };
    expect(judge(changed).headline).toMatch(/^Suffixes \(75 % of them keep the answer\) collapse/);
    expect(judge(result).headline).toMatch(/^Suffixes that keep the answer collapse/);
  });
});

describe('the exit code', () => {
  it.each<[string, Case, Parameters<typeof judge>[1], number]>([
    ['passes without a gate, whatever was found', { drop: 0.9 }, {}, 0],
    ['passes below the drop', { drop: 0.29 }, { failIfDrop: 0.3 }, 0],
    ['fails at the drop', { drop: 0.3 }, { failIfDrop: 0.3 }, 100],
    ['fails by the estimate, significant or not', { drop: 0.4, pClean: 0.5 }, { failIfDrop: 0.3 }, 100],
    ['fails on a limit that is no number', { drop: 0 }, { failIfDrop: NaN }, 100],
    ['passes at the accepted length', { drop: 0.3 }, { failIfAcceptedLengthBelow: 1 }, 0],
    ['fails below the accepted length', { drop: 0.3 }, { failIfAcceptedLengthBelow: 4 }, 100],
    ['is incomplete where nothing was audited', { drop: 0, audited: 0 }, { failIfDrop: 0.3 }, 3],
    ['is incomplete where the drop is no number', { drop: NaN }, { failIfDrop: 0.3 }, 3],
  ])('%s', (_, summary, gate, exitCode) => {
    const verdict = judge(withSummaries(summary), gate);
    expect(verdict.exitCode).toBe(exitCode);
    expect(verdict.failures.length > 0).toBe(exitCode !== 0);
  });

  it('never passes an empty result, with or without drafters', () => {
    expect(judge({ ...sample, drafters: [] })).toMatchObject({ exitCode: 3, level: 'inconclusive' });
    const { result } = createSampleAudit({ empty: true });
    const verdict = judge(result, { failIfDrop: 0.99 });
    expect(verdict.exitCode).toBe(3);
    expect(verdict.failures).toHaveLength(2);
    expect(verdict.headline).toContain('n = 0');
  });

  it('does not let one audited drafter hide another that was not', () => {
    expect(judge(withSummaries({ drop: 0.1 }, { drop: 0, audited: 0 })).exitCode).toBe(3);
    expect(judge(withSummaries({ drop: 0.5 }, { drop: 0, audited: 0 }), { failIfDrop: 0.3 }).exitCode).toBe(
      100,
    );
  });

  it('names the value and the limit of a failed gate', () => {
    const { failures } = judge(withSummaries({ drop: 0.412 }), {
      failIfDrop: 0.3,
      failIfAcceptedLengthBelow: 4,
    });
    expect(failures[0]).toMatch(/eagle3 drops by 41\.2 %; the gate fails from 30\.0 % on/);
    expect(failures[1]).toMatch(/eagle3 is \d\.\d\d; the gate asks for at least 4\.00/);
  });
});
