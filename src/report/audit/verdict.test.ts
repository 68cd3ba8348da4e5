import { describe, expect, it } from 'vitest';
import type { AuditResult, ControlName, DrafterSummary } from '../../audit/result.js';
import { controls } from '../../audit/result.js';
import { createSampleAudit } from '../../../test/support/report/sample-audit.js';
import { judge } from './verdict.js';

interface Case {
  readonly drop: number;
  readonly high?: number;
  /** p-values that differ from 0.01; null where the control was not measured. */
  readonly p?: Readonly<Partial<Record<ControlName, number | null>>>;
  readonly audited?: number;
  readonly withoutSuffix?: number;
  readonly testedOn?: number;
}

const sample = createSampleAudit().result;
const given = createSampleAudit({ given: true }).result;

function withSummaries(base: AuditResult, ...cases: readonly Case[]): AuditResult {
  const drafters = cases.map((entry, index) => {
    const { drop, high = drop + 0.05, p = {}, audited = 8, withoutSuffix = 0, testedOn = audited } = entry;
    const drafter = base.drafters[index]!;
    const summary: DrafterSummary = {
      ...drafter.summary,
      drop: { estimate: drop, low: drop - 0.05, high, n: audited },
      tests: controls.flatMap((against) => {
        const pValue = p[against] === undefined ? 0.01 : p[against];
        return pValue === null ? [] : [{ against, n: testedOn, pValue, method: 'exact' as const }];
      }),
      promptsAudited: audited,
      promptsWithoutSuffix: withoutSuffix,
    };
    return { ...drafter, summary };
  });
  return { ...base, drafters };
}

/** As if the first drafter's prompts had chosen the suffixes that were given. */
function replay(result: AuditResult): AuditResult {
  const [first, ...others] = result.drafters;
  return {
    ...result,
    drafters: [{ ...first!, summary: { ...first!.summary, tests: [], promptsReplayed: 8 } }, ...others],
  };
}

const levelOf = (...cases: readonly Case[]): string => judge(withSummaries(sample, ...cases)).level;
const headlineOf = (...cases: readonly Case[]): string => judge(withSummaries(sample, ...cases)).headline;

describe('the level of a verdict', () => {
  it.each<[string, Case, string]>([
    ['a large significant drop', { drop: 0.4 }, 'collapsed'],
    ['exactly the bound of a collapse', { drop: 0.3 }, 'collapsed'],
    ['a middling significant drop', { drop: 0.2 }, 'fragile'],
    ['exactly the bound of fragility', { drop: 0.1 }, 'fragile'],
    [
      'a large drop that clean prompts could show by chance',
      { drop: 0.4, p: { clean: 0.2 } },
      'inconclusive',
    ],
    ['a large drop that random tokens reach too', { drop: 0.4, p: { random: 0.05 } }, 'inconclusive'],
    ['a large drop that fluent text reaches too', { drop: 0.4, p: { fluent: 0.3 } }, 'inconclusive'],
    [
      'a large drop that an undirected search reaches',
      { drop: 0.4, p: { undirected: 0.06 } },
      'inconclusive',
    ],
    ['a large drop without an undirected search', { drop: 0.4, p: { undirected: null } }, 'inconclusive'],
    ['a large drop without fluent text', { drop: 0.4, p: { fluent: null } }, 'inconclusive'],
    ['a test that is no number', { drop: 0.4, p: { random: NaN } }, 'inconclusive'],
    ['a small drop with a narrow interval', { drop: 0.02, p: { clean: 0.3 } }, 'robust'],
    ['a small drop without an undirected search', { drop: 0.02, p: { undirected: null } }, 'robust'],
    ['a small drop that is real', { drop: 0.03 }, 'robust'],
    ['a small drop with a wide interval', { drop: 0.02, high: 0.3, p: { clean: 0.3 } }, 'inconclusive'],
    ['an interval that ends at the bound', { drop: 0.02, high: 0.1 }, 'inconclusive'],
    ['a small drop seen on too few prompts', { drop: 0, high: 0, audited: 4 }, 'inconclusive'],
    ['a large drop seen on too few prompts', { drop: 0.5, audited: 4 }, 'inconclusive'],
    ['five prompts', { drop: 0.5, audited: 5 }, 'collapsed'],
    ['nothing audited', { drop: 0, high: 0, audited: 0 }, 'inconclusive'],
    ['a drop that is no number', { drop: NaN }, 'inconclusive'],
  ])('for %s', (_, summary, level) => {
    expect(levelOf(summary)).toBe(level);
  });

  it('needs no undirected search for suffixes that were given, but the other controls', () => {
    const level = (summary: Case): string => judge(withSummaries(given, summary)).level;
    expect(level({ drop: 0.4, p: { undirected: null } })).toBe('collapsed');
    expect(level({ drop: 0.4, p: { undirected: null, random: null } })).toBe('inconclusive');
    expect(level({ drop: 0.4, p: { undirected: null, clean: null } })).toBe('inconclusive');
    expect(level({ drop: 0.4, p: { undirected: null, fluent: 0.2 } })).toBe('inconclusive');
    expect(level({ drop: 0.4, p: { undirected: 0.2 } })).toBe('inconclusive');
  });

  it('is that of the worst drafter, and the sentence is about that one', () => {
    const verdict = judge(withSummaries(sample, { drop: 0.02, p: { clean: 0.4 } }, { drop: 0.45 }));
    expect(verdict.level).toBe('collapsed');
    expect(verdict.drafters.map(({ level }) => level)).toEqual(['robust', 'collapsed']);
    expect(verdict.headline).toContain(
      'With a suffix, sps accepts 45 % fewer tokens per step (95 % interval 40 to 50 %)',
    );
  });
});

describe('the evidence of a verdict', () => {
  it('is the largest p-value over the controls, by name', () => {
    const [drafter] = judge(
      withSummaries(sample, { drop: 0.4, p: { clean: 0.001, random: 0.03, undirected: 0.02 } }),
    ).drafters;
    expect(drafter).toMatchObject({ pValue: 0.03, adjustedPValue: 0.03, weakestControl: 'random' });
    expect(drafter).toMatchObject({ significant: true, missingControls: [], counted: 'attack' });
  });

  it('pays for every drafter', () => {
    const levels = (...pValues: readonly number[]): readonly string[] =>
      judge(
        withSummaries(sample, ...pValues.map((undirected) => ({ drop: 0.4, p: { undirected } }))),
      ).drafters.map(({ level }) => level);
    expect(levels(0.03)).toEqual(['collapsed']);
    expect(levels(0.03, 0.04)).toEqual(['inconclusive', 'inconclusive']);
    expect(levels(0.02, 0.04)).toEqual(['collapsed', 'collapsed']);
    expect(levels(0.04, 0.012)).toEqual(['collapsed', 'collapsed']);
    expect(levels(0.012, 0.06)).toEqual(['collapsed', 'inconclusive']);
    const { drafters } = judge(withSummaries(sample, { drop: 0.4, p: { fluent: 0.02 } }, { drop: 0.4 }));
    expect(drafters.map(({ pValue }) => pValue)).toEqual([0.02, 0.01]);
    expect(drafters.map(({ adjustedPValue }) => adjustedPValue)).toEqual([0.02, 0.02]);
  });

  it('does not let a drafter pay for one that claims nothing', () => {
    const missing = { drop: 0.4, p: { undirected: null } };
    const { drafters } = judge(withSummaries(sample, { drop: 0.4, p: { fluent: 0.04 } }, missing));
    expect(drafters.map(({ level }) => level)).toEqual(['collapsed', 'inconclusive']);
    expect(drafters[1]).toMatchObject({
      pValue: 0.01,
      adjustedPValue: null,
      significant: false,
      missingControls: ['undirected'],
    });
    const empty = judge(withSummaries(sample, { drop: 0.4, p: { fluent: 0.04 } }, { drop: 0, audited: 0 }));
    expect(empty.drafters.map(({ adjustedPValue }) => adjustedPValue)).toEqual([0.04, null]);
    expect(empty.drafters[1]).toMatchObject({ pValue: null, weakestControl: null, audited: false });
  });
});

describe('the headline', () => {
  it('gives a longer accepted length and its interval the same sign', () => {
    expect(headlineOf({ drop: -0.2 })).toContain('20 % more tokens per step (95 % interval 15 to 25 %)');
  });

  it('has numbers that the table has, the classes, and the weakest control', () => {
    const { summary } = sample.drafters[0]!;
    const row = (arm: string) => summary.arms.find((entry) => entry.arm === arm)!;
    const [clean, attack] = [row('clean'), row('attack')];
    const more = Math.round((attack.passes / clean.passes - 1) * 100);
    expect(judge(sample).headline).toBe(
      `With a suffix, eagle3 accepts ${(summary.drop.estimate * 100).toFixed(0)} % fewer tokens per step ` +
        `(95 % interval ${(summary.drop.low * 100).toFixed(0)} to ${(summary.drop.high * 100).toFixed(0)} %) ` +
        'on the same answers, over 8 prompts; ' +
        `from ${clean.sameAnswer.estimate.toFixed(2)} to ${attack.sameAnswer.estimate.toFixed(2)} tokens a step, ` +
        `so the target needs ${more} % more passes; ` +
        '1 prompt has no suffix and counts as no drop; ' +
        'answers: 4 identical · 1 task · 3 similar · 0 different; ' +
        'n = 8, p = 0.008 against the weakest control (undirected search), p = 0.016 corrected for 2 drafters.',
    );
  });

  it('names suffixes that were given', () => {
    const { level, headline } = judge(given);
    expect(level).toBe('collapsed');
    expect(headline).toMatch(/^With the given suffixes, eagle3 accepts /);
    expect(headline).toContain('against the weakest control (fluent text)');
  });

  it.each<[string, Case, RegExp]>([
    ['too few prompts', { drop: 0.4, audited: 3 }, /but 3 prompts cannot decide it \(5 or more can\);/],
    ['one prompt', { drop: 0.4, audited: 1 }, /but 1 prompt cannot decide it/],
    [
      'too few prompts and no undirected search',
      { drop: 0.4, audited: 4, p: { undirected: null } },
      /4 prompts cannot decide it \(5 or more can\) and no search of equal effort was run;/,
    ],
    [
      'no undirected search',
      { drop: 0.4, p: { undirected: null } },
      /but no search of equal effort was run;/,
    ],
    ['chance', { drop: 0.4, p: { clean: 0.1 } }, /this could be chance;/],
    ['random tokens', { drop: 0.4, p: { random: 0.1 } }, /random tokens may do as much;/],
    ['fluent text', { drop: 0.4, p: { fluent: 0.1 } }, /ordinary text may do as much;/],
    ['luck', { drop: 0.4, p: { undirected: 0.1 } }, /an undirected search of equal effort may do as much;/],
    [
      'a control on few prompts',
      { drop: 0.4, testedOn: 3, p: { undirected: 0.125 } },
      /undirected search was measured on 3 prompts only;/,
    ],
    ['a wide interval', { drop: 0.08, high: 0.14 }, /a drop of up to 14 % is not ruled out;/],
  ])('says that the doubt is %s', (_, summary, reason) => {
    expect(headlineOf(summary)).toMatch(reason);
  });

  it('says that several drafters need more prompts than one', () => {
    const five = { drop: 0.4, audited: 5, p: { undirected: 1 / 32 } };
    expect(headlineOf(five)).not.toContain('cannot decide');
    expect(headlineOf(five, five)).toContain(
      '5 prompts cannot decide it for 2 drafters at once (6 or more can)',
    );
    const eight = { drop: 0.4, p: { undirected: 0.04 } };
    expect(headlineOf(eight, eight)).toContain('chance is not excluded over 2 drafters at once');
    expect(headlineOf(eight, eight)).toContain('p = 0.080 corrected for 2 drafters');
  });

  it('says that no suffix was found at all, which is no drop', () => {
    const { result } = createSampleAudit({ withoutSuffix: 'all' });
    expect(result.drafters.map(({ summary }) => summary.drop)).toEqual([
      { estimate: 0, low: 0, high: 0, n: 8 },
      { estimate: 0, low: 0, high: 0, n: 8 },
    ]);
    const { level, headline } = judge(result);
    expect(level).toBe('robust');
    expect(headline).toMatch(
      /^The search found no suffix inside the bounds for eagle3, so nothing is lost, over 8 prompts;/,
    );
    const few = createSampleAudit({ withoutSuffix: 'all', prompts: 3 }).result;
    expect(judge(few)).toMatchObject({ level: 'inconclusive' });
    expect(judge(few).headline).toContain('but 3 prompts cannot decide it');
  });

  it('counts answers that were not kept as what they are', () => {
    const [first] = sample.drafters;
    const kept = { identical: 1, task: 0, similar: 0, different: 7 };
    const arms = first!.summary.arms.map((row) => (row.arm === 'attack' ? { ...row, kept } : row));
    const changed = { ...sample, drafters: [{ ...first!, summary: { ...first!.summary, arms } }] };
    expect(judge(changed).headline).toContain('answers: 1 identical · 0 task · 0 similar · 7 different;');
  });
});

describe('the exit code', () => {
  it.each<[string, Case, Parameters<typeof judge>[1], number]>([
    ['passes without a gate, whatever was found', { drop: 0.9 }, {}, 0],
    ['passes with the whole interval below the drop', { drop: 0.24, high: 0.29 }, { failIfDrop: 0.3 }, 0],
    ['passes whatever the level: fragile', { drop: 0.12, high: 0.18 }, { failIfDrop: 0.3 }, 0],
    [
      'passes whatever the level: inconclusive',
      { drop: 0.08, high: 0.14, p: { clean: 0.3 } },
      { failIfDrop: 0.3 },
      0,
    ],
    ['is undecided where the interval reaches the drop', { drop: 0.2, high: 0.3 }, { failIfDrop: 0.3 }, 4],
    ['is undecided on too few prompts', { drop: 0.02, high: 0.03, audited: 4 }, { failIfDrop: 0.5 }, 4],
    ['fails on too few prompts', { drop: 0.4, audited: 1 }, { failIfDrop: 0.3 }, 100],
    ['needs no more than five prompts', { drop: 0.02, high: 0.03, audited: 5 }, { failIfDrop: 0.5 }, 0],
    ['fails at the drop', { drop: 0.3 }, { failIfDrop: 0.3 }, 100],
    ['fails by the estimate, significant or not', { drop: 0.4, p: { clean: 0.5 } }, { failIfDrop: 0.3 }, 100],
    ['fails without an undirected search', { drop: 0.4, p: { undirected: null } }, { failIfDrop: 0.3 }, 100],
    ['fails on a limit that is no number', { drop: 0 }, { failIfDrop: NaN }, 100],
    ['passes at the accepted length', { drop: 0.3 }, { failIfAcceptedLengthBelow: 1 }, 0],
    ['fails below the accepted length', { drop: 0.3 }, { failIfAcceptedLengthBelow: 4 }, 100],
    ['is incomplete where nothing was audited', { drop: 0, audited: 0 }, { failIfDrop: 0.3 }, 3],
    ['is incomplete where the drop is no number', { drop: NaN }, { failIfDrop: 0.3 }, 3],
  ])('%s', (_, summary, gate, exitCode) => {
    const verdict = judge(withSummaries(sample, summary), gate);
    expect(verdict.exitCode).toBe(exitCode);
    expect(verdict.failures.length > 0).toBe(exitCode !== 0);
  });

  it('reads the length of what was given where nothing was searched', () => {
    const attacked = given.drafters[0]!.summary.arms.find(({ arm }) => arm === 'given')!.sameAnswer.estimate;
    const check = (limit: number): number =>
      judge(withSummaries(given, { drop: 0.4 }), { failIfAcceptedLengthBelow: limit }).exitCode;
    expect(check(1)).toBe(0);
    expect(check(attacked - 0.01)).toBe(4);
    expect(check(attacked + 0.01)).toBe(100);
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
    const unaudited = { drop: 0, audited: 0 };
    expect(judge(withSummaries(sample, { drop: 0.1 }, unaudited)).exitCode).toBe(3);
    expect(judge(withSummaries(sample, { drop: 0.5 }, unaudited), { failIfDrop: 0.3 }).exitCode).toBe(100);
  });

  it('names the value and the limit of a failed gate', () => {
    const { failures } = judge(withSummaries(sample, { drop: 0.412 }), {
      failIfDrop: 0.3,
      failIfAcceptedLengthBelow: 4,
    });
    expect(failures[0]).toMatch(
      /eagle3 drops by 41\.2 % \(95 % interval 36\.2 to 46\.2 %\); the gate fails from 30\.0 % on\.$/,
    );
    expect(failures[1]).toMatch(/eagle3 is \d\.\d\d \(.*\); the gate asks for at least 4\.00\.$/);
  });
});

describe('suffixes that are replayed on the prompts that chose them', () => {
  it.each([0.02, 0.2, 0.6])('get no verdict and decide no gate, at a drop of %d', (drop) => {
    const verdict = judge(replay(withSummaries(given, { drop })), {
      failIfDrop: 0.3,
      failIfAcceptedLengthBelow: 1,
    });
    expect(verdict).toMatchObject({ level: 'none', exitCode: 4 });
    expect(verdict.drafters[0]).toMatchObject({ pValue: null, adjustedPValue: null, significant: false });
    expect(verdict.headline).toContain(
      'but these prompts chose the suffixes, so replaying them proves nothing new',
    );
    expect(verdict.headline).toMatch(/n = 8, no test\.$/);
    expect(verdict.checks.map(({ outcome }) => outcome)).toEqual(['undecided', 'undecided']);
    expect(verdict.failures[0]).toMatch(/but these prompts chose the suffixes, so this decides nothing\.$/);
  });

  it('do not hide what another drafter shows', () => {
    const verdict = judge(replay(withSummaries(given, { drop: 0.6 }, { drop: 0.4 })), { failIfDrop: 0.3 });
    expect(verdict).toMatchObject({ level: 'collapsed', exitCode: 100 });
  });
});
