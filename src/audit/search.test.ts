import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { LoadedPair, ScorerParts } from '../../test/support/tiny-audit.js';
import { TinyAudits, tinySettings } from '../../test/support/tiny-audit.js';
import { createRandom } from '../core/random.js';
import { listAllowedTokens } from './allowed-tokens.js';
import { joinPrompt, suffixText } from './audit-prompt.js';
import type { Candidate } from './candidates.js';
import { keyOf, randomSuffix } from './candidates.js';
import type { Projection } from './projection.js';
import type { Scored } from './scoring.js';
import type { SearchOutcome, SearchSettings, SuffixScorer } from './search.js';
import { searchSuffix } from './search.js';

const settings: SearchSettings = {
  ...tinySettings,
  steps: 8,
  candidates: 12,
  epsilon: 0.4,
  buffer: 4,
  projection: { kind: 'direction', weight: 2 },
  drive: 'degradation',
};

describe('the search on a tiny target', () => {
  const audits = new TinyAudits();
  afterAll(() => audits.dispose());
  let parts: ScorerParts;
  let allowed: Int32Array;
  beforeAll(async () => {
    const pair: LoadedPair = await audits.load(audits.writeDrafter('EAGLE-3 with d2t'));
    parts = await audits.openScorer(pair, 'abcdefgh{suffix}ijk');
    allowed = listAllowedTokens(pair.target.tokenizer, audits.sizes.vocabularySize, { allowNonAscii: false });
  }, 60_000);

  interface Watched {
    readonly outcome: SearchOutcome;
    readonly scored: readonly Scored[];
  }

  async function search(changes: Partial<SearchSettings> = {}, seed = 1): Promise<Watched> {
    const scored: Scored[] = [];
    const { scorer } = parts;
    const watched: SuffixScorer = {
      async score(base, candidates: readonly Candidate[]) {
        const scores = await scorer.score(base, candidates);
        scored.push(...scores);
        return scores;
      },
      differentiate: (suffixIds) => scorer.differentiate(suffixIds),
      differentiatePositions: (suffixIds) => scorer.differentiatePositions(suffixIds),
      keepRoundTrips: (suffixes) => scorer.keepRoundTrips(suffixes),
    };
    const random = createRandom(seed, 'search');
    const starts = [randomSuffix(allowed, tinySettings.suffixLength, random)];
    const outcome = await searchSuffix(
      { scorer: watched, allowed, starts, random },
      { ...settings, ...changes },
    );
    return { outcome, scored };
  }

  it.each([{ kind: 'none' }, { kind: 'direction', weight: 2 }, { kind: 'subspace' }] satisfies Projection[])(
    'only ever gets better and stays inside the bound ($kind)',
    async (projection) => {
      const { outcome, scored } = await search({ projection });
      const { best, trace } = outcome;
      expect(trace.map(({ step }) => step)).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
      const inside = trace.filter(({ divergence }) => divergence <= settings.epsilon);
      inside.slice(1).forEach(({ degradation }, index) => {
        expect(degradation).toBeGreaterThanOrEqual(inside[index]!.degradation);
      });
      expect(best.length).toBeGreaterThan(0);
      for (const { divergence } of best) expect(divergence).toBeLessThanOrEqual(settings.epsilon);
      // Nothing that was tried, lies inside and is better has been left behind.
      const feasible = scored.filter(({ divergence }) => divergence <= settings.epsilon);
      expect(best[0]!.degradation).toBe(Math.max(...feasible.map(({ degradation }) => degradation)));
      expect(outcome.leastDivergence).toBe(Math.min(...scored.map(({ divergence }) => divergence)));
    },
  );

  it('tries no suffix twice, and only allowed tokens', async () => {
    const { scored } = await search();
    const keys = scored.map(({ suffixIds }) => keyOf(suffixIds));
    expect(new Set(keys).size).toBe(keys.length);
    for (const { suffixIds } of scored) for (const token of suffixIds) expect(allowed).toContain(token);
  });

  it('finds suffixes whose text gives the audited ids again', async () => {
    const { target, prompt } = parts;
    for (const { suffixIds } of (await search()).outcome.best) {
      const text = suffixText(target, prompt, suffixIds);
      expect(await target.tokenizer.encode(`abcdefgh${text}ijk`)).toEqual(joinPrompt(prompt, suffixIds));
    }
  });

  it('gives the same result for the same seed', async () => {
    const [first, again, other] = [await search(), await search(), await search({}, 2)];
    expect(again.outcome).toEqual(first.outcome);
    expect(other.outcome.best).not.toEqual(first.outcome.best);
  });

  it('as a control only lowers the divergence', async () => {
    const { outcome, scored } = await search({ drive: 'preservation' });
    expect(outcome.best[0]!.divergence).toBe(Math.min(...scored.map(({ divergence }) => divergence)));
  });

  it('says how close it came where everything is vetoed', async () => {
    const { outcome } = await search({ epsilon: 1e-9 });
    expect(outcome.best).toEqual([]);
    expect(outcome.leastDivergence).toBeGreaterThan(1e-9);
    expect(outcome.leastDivergence).toBeLessThan(Infinity);
  });

  it('stops at the step in which it is interrupted', async () => {
    const abort = new AbortController();
    const random = createRandom(1, 'stop');
    const outcome = await searchSuffix(
      {
        scorer: parts.scorer,
        allowed,
        starts: [randomSuffix(allowed, tinySettings.suffixLength, random)],
        random,
        signal: abort.signal,
        onStep: ({ step }) => {
          if (step === 2) abort.abort();
        },
      },
      settings,
    );
    expect([outcome.interrupted, outcome.trace.length]).toEqual([true, 2]);
  });
});

/** Suffixes of three tokens without a gradient; the caller says what each is worth. */
function plainScorer(
  degradationOf: (suffixIds: readonly number[]) => number,
  onVisit: (suffix: string) => void = () => undefined,
): SuffixScorer {
  return {
    score: (_, candidates) =>
      Promise.resolve(
        candidates.map((candidate) => ({
          ...candidate,
          degradation: degradationOf(candidate.suffixIds),
          divergence: 0,
        })),
      ),
    differentiate(suffixIds) {
      onVisit(keyOf(suffixIds));
      const gradient = new Float32Array(3 * 9);
      return Promise.resolve({
        ...{ degradation: 0, divergence: 0 },
        ...{ degradationGradient: gradient, divergenceGradient: gradient },
      });
    },
    differentiatePositions: () => Promise.resolve([]),
    keepRoundTrips: (suffixes) => Promise.resolve(suffixes.map(() => true)),
  };
}

const allowedThree = Int32Array.of(4, 5, 6);

describe('without gain', () => {
  it('goes on from the best suffix that it has not yet gone on from, when its patience ends', async () => {
    // Nothing is ever better than a start, so that every step is a step without gain.
    const visited: string[] = [];
    const isStart = ([first, ...others]: readonly number[]) => others.every((id) => id === first);
    const scorer = plainScorer(
      (ids) => (isStart(ids) ? 1 : 0),
      (suffix) => visited.push(suffix),
    );
    await searchSuffix(
      { scorer, allowed: allowedThree, starts: [[1, 1, 1], [2, 2, 2]], random: createRandom(1) }, // prettier-ignore
      { ...settings, steps: 5, patience: 2, positions: 1, candidates: 1 },
    );
    expect(visited.slice(0, 4)).toEqual(['1 1 1', '1 1 1', '2 2 2', '2 2 2']);
    expect(visited[4]).toMatch(/[456]/);
  });
});

describe('with real decoding', () => {
  const total = (ids: readonly number[]): number => ids.reduce((sum, id) => sum + id, 0);
  const run = (measure: (ids: readonly number[]) => number, changes: Partial<SearchSettings> = {}) =>
    searchSuffix(
      {
        // The objective likes small tokens, the truth large ones.
        scorer: plainScorer((ids) => -total(ids)),
        allowed: allowedThree,
        starts: [[4, 4, 5]],
        random: createRandom(2),
        measure: (ids) => Promise.resolve(measure(ids)),
      },
      { ...settings, steps: 12, positions: 3, candidates: 9, decodes: 6, ...changes },
    );

  it('follows what is measured, not the objective', async () => {
    const { shortest, best, trace } = await run((ids) => 20 - total(ids));
    expect(shortest).toMatchObject({ suffixIds: [6, 6, 6], length: 2 });
    expect(best[0]!.suffixIds).toEqual([4, 4, 4]);
    expect(trace.at(-1)!.acceptedLength).toBe(2);
    const lengths = trace.map(({ acceptedLength }) => acceptedLength!);
    expect(lengths).toEqual([...lengths].sort((left, right) => right - left));
  });

  it('follows the objective where no answer is kept, and names none', async () => {
    const { shortest, best, trace } = await run(() => Infinity);
    expect(shortest).toBeUndefined();
    expect(best[0]!.suffixIds).toEqual([4, 4, 4]);
    expect(trace.at(-1)!.acceptedLength).toBeNull();
  });

  it('decodes nothing where none is asked for', async () => {
    const { shortest } = await run(() => Number.NaN, { decodes: 0 });
    expect(shortest).toBeUndefined();
  });
});
