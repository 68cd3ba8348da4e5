import { describe, expect, it } from 'vitest';
import { isFaulty, summariseByCategory, summariseBySet } from './benchmark-summary.js';
import {
  plainRecord,
  type SampleSpeculation,
  speculativeRecord,
} from '../../test/support/measure/sample-records.js';

// Prompt a: 11 tokens, plain 1000 ms, speculative 500 ms in steps of 1 + 4 and 1 + 4 tokens.
// Prompt b: 31 tokens, plain 3000 ms, speculative 2500 ms, 30 steps that accept nothing.
const records = [
  plainRecord({ promptId: 'a', category: 'x', tokens: 11, decodeMs: 1000, prefillMs: 10 }),
  speculativeRecord({
    ...{ promptId: 'a', category: 'x', tokens: 11, decodeMs: 500, prefillMs: 20 },
    ...{ accepted: [4, 4], draftMs: 100, verifyMs: 350 },
  }),
  plainRecord({ promptId: 'b', category: 'y', tokens: 31, decodeMs: 3000, prefillMs: 30 }),
  speculativeRecord({
    ...{ promptId: 'b', category: 'y', tokens: 31, decodeMs: 2500, prefillMs: 40 },
    ...{ accepted: Array.from({ length: 30 }, () => 0), draftMs: 500, verifyMs: 1900 },
  }),
];

describe('the summary of a benchmark', () => {
  const [plain, eagle3, ...more] = summariseBySet(records);

  it('has plain decoding first and then every system', () => {
    expect([plain?.system, eagle3?.system, more]).toEqual(['plain', 'eagle3', []]);
    expect(plain).toEqual({
      set: 'code',
      system: 'plain',
      policy: 'none',
      requests: 2,
      newTokens: 42,
      prefillMs: 20,
      tokensPerSecond: 10,
    });
  });

  it('pools accepted lengths by step and names the mean of request means apart', () => {
    // 8 accepted in 32 steps; the requests' own means are 5 and 1.
    expect(eagle3?.speculation?.meanAcceptedLength?.estimate).toBe(1.25);
    expect(eagle3?.speculation?.meanOfRequestMeans).toBe(3);
    expect(eagle3?.speculation?.steps).toBe(32);
    expect(eagle3?.speculation?.acceptanceByDepth).toEqual([1 / 16, 1 / 16, 1 / 16, 1 / 16]);
    expect(eagle3?.speculation?.acceptanceRate).toBe(8 / 128);
  });

  it('takes speed and speedup as ratios of sums over the tokens after the first', () => {
    expect(eagle3?.tokensPerSecond).toBeCloseTo(40 / 3, 12);
    const speedup = eagle3?.speculation?.speedup;
    expect(speedup?.estimate).toBeCloseTo(4 / 3, 12);
    // Two prompts say almost nothing; a speedup is never negative.
    expect(speedup).toMatchObject({ low: 0, n: 2 });
    expect(speedup?.high).toBeGreaterThan(2);
  });

  it('shares the time for decoding out', () => {
    const { draft, verify, rest } = eagle3!.speculation!.shares;
    expect(draft).toBeCloseTo(0.2, 12);
    expect(verify).toBeCloseTo(0.75, 12);
    expect(rest).toBeCloseTo(0.05, 12);
  });

  it('leaves answers of one token out of the speedup, and has none if all are so', () => {
    const short = [
      plainRecord({ promptId: 'c', tokens: 1, decodeMs: 0.1 }),
      speculativeRecord({ promptId: 'c', tokens: 1, decodeMs: 0.1, accepted: [] }),
    ];
    expect(summariseBySet([...records, ...short])[1]?.speculation?.speedup?.n).toBe(2);
    const [, alone] = summariseBySet(short);
    expect(alone?.speculation?.speedup).toBeUndefined();
    expect(alone?.speculation?.meanAcceptedLength).toBeUndefined();
    expect(alone?.tokensPerSecond).toBe(0);
  });

  it('counts differing answers, and does not where tokens are drawn', () => {
    const withAnswers = (...equals: (boolean | undefined)[]) =>
      summariseBySet(
        equals.flatMap((equalsPlain, index) => {
          const answer = { promptId: String(index), tokens: 3, decodeMs: 10 };
          return [plainRecord(answer), speculativeRecord({ ...answer, accepted: [1], equalsPlain })];
        }),
      )[1]?.speculation?.differingAnswers;
    expect(withAnswers(true, true)).toBe(0);
    expect(withAnswers(true, false, false)).toBe(2);
    expect(withAnswers(undefined, undefined)).toBeUndefined();
  });

  it('finds differing answers faulty, unless they are lossy', () => {
    const summarise = (changes: Pick<SampleSpeculation, 'equalsPlain' | 'lossReason'>) => {
      const answer = { promptId: 'a', tokens: 3, decodeMs: 10 };
      return summariseBySet([
        plainRecord(answer),
        speculativeRecord({ ...answer, accepted: [1], ...changes }),
      ]);
    };
    const lossy = { equalsPlain: false, lossReason: 'int8 weights' };
    expect(summarise({ equalsPlain: true }).some(isFaulty)).toBe(false);
    expect(summarise({ equalsPlain: false }).some(isFaulty)).toBe(true);
    expect(summarise(lossy).some(isFaulty)).toBe(false);
    expect(summarise(lossy)[1]?.speculation?.lossReason).toBe('int8 weights');
  });

  it('keeps sets, systems and policies apart', () => {
    const answer = { promptId: 'a', tokens: 3, decodeMs: 10, accepted: [1] };
    const summaries = summariseBySet(
      ['code', 'chat'].flatMap((set) => [
        plainRecord({ ...answer, set }),
        speculativeRecord({ ...answer, set, policy: 'chain:2' }),
        speculativeRecord({ ...answer, set, policy: 'auto' }),
      ]),
    );
    expect(summaries.map(({ set, policy }) => `${set} ${policy}`)).toEqual([
      'code none',
      'code chain:2',
      'code auto',
      'chat none',
      'chat chain:2',
      'chat auto',
    ]);
    expect(summaries.every(({ requests }) => requests === 1)).toBe(true);
  });
});

describe('the summary by category', () => {
  it('shows what the pooled numbers hide', () => {
    const summaries = summariseByCategory(records);
    const found = summaries.flatMap(({ category, speculation }) =>
      speculation === undefined
        ? []
        : [[category, speculation.meanAcceptedLength?.estimate, speculation.speedup?.estimate]],
    );
    expect(found).toEqual([
      ['x', 5, 2],
      ['y', 1, 1.2],
    ]);
  });

  it('is empty for sets with one category or none', () => {
    expect(summariseByCategory(records.map((record) => ({ ...record, category: 'x' })))).toEqual([]);
    expect(summariseByCategory(records.map((record) => ({ ...record, category: undefined })))).toEqual([]);
  });
});
