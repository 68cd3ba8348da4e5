import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { LoadedPair, ScorerParts } from '../../../test/support/tiny-audit.js';
import { TinyAudits, tinySettings } from '../../../test/support/tiny-audit.js';
import { createRandom } from '../../core/random.js';
import { listAllowedTokens } from '../arms/controls.js';
import { joinPrompt, suffixText } from '../arms/audit-prompt.js';
import { type Candidate, keyOf, randomSuffix, rankTokens } from './candidates.js';
import type { Projection } from './projection.js';
import { searchSuffix } from './search.js';
import type { Scored, SearchEffort, SearchOutcome, SearchSettings, SuffixScorer } from './search-problem.js';

const settings: SearchSettings = {
  ...tinySettings,
  steps: 8,
  candidates: 12,
  epsilon: 0.4,
  finalists: 4,
  projection: { kind: 'direction', weight: 2 },
  searchMode: 'degradation',
};

const effortOf = ({ scoredCandidates, finalists }: SearchOutcome): SearchEffort => ({
  scoredCandidates,
  decodedSuffixes: finalists.length,
});

describe('the search on a tiny target', () => {
  const audits = new TinyAudits();
  afterAll(() => audits.dispose());
  let parts: ScorerParts;
  let allowed: Int32Array;
  beforeAll(async () => {
    const pair: LoadedPair = await audits.load(audits.writeDrafter('EAGLE-3 with d2t'));
    parts = await audits.openScorer(pair, 'abcdefgh{suffix}ijk');
    allowed = listAllowedTokens(pair.target.tokenizer, audits.sizes.vocabularySize, { allowNonAscii: false });
  });

  interface Watched {
    readonly outcome: SearchOutcome;
    readonly scored: readonly Scored[];
  }

  async function search(
    changes: Partial<SearchSettings> = {},
    seed = 1,
    match?: SearchOutcome,
  ): Promise<Watched> {
    const scored: Scored[] = [];
    const { scorer } = parts;
    const watched: SuffixScorer = {
      answerLength: scorer.answerLength,
      async score(base, candidates: readonly Candidate[]) {
        const scores = await scorer.score(base, candidates);
        scored.push(...scores);
        return scores;
      },
      rankTokens: (suffixIds, towards, ranking) => scorer.rankTokens(suffixIds, towards, ranking),
      keepRoundTrips: (suffixes) => scorer.keepRoundTrips(suffixes),
    };
    const random = createRandom(seed, 'search');
    const starts = [randomSuffix(allowed, tinySettings.suffixLength, random)];
    const outcome = await searchSuffix(
      { scorer: watched, allowed, starts, random, ...(match && { match: effortOf(match) }) },
      { ...settings, ...changes },
    );
    return { outcome, scored };
  }

  it.each([{ kind: 'none' }, { kind: 'direction', weight: 2 }, { kind: 'subspace' }] satisfies Projection[])(
    'only ever gets better and stays inside the bound ($kind)',
    async (projection) => {
      const { outcome, scored } = await search({ projection });
      const { finalists, trace } = outcome;
      expect(trace.map(({ step }) => step)).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
      const lengths = trace.flatMap(({ acceptedLength }) => acceptedLength ?? []);
      lengths.slice(1).forEach((length, index) => {
        expect(length).toBeLessThanOrEqual(lengths[index]!);
      });
      expect(finalists.length).toBeGreaterThan(0);
      for (const { divergence } of finalists) expect(divergence).toBeLessThanOrEqual(settings.epsilon);
      // Nothing that was tried, lies inside and is shorter has been left behind.
      const feasible = scored.filter(({ divergence }) => divergence <= settings.epsilon);
      expect(finalists[0]!.length).toBe(Math.min(...feasible.map(({ length }) => length)));
      expect(outcome.scoredCandidates).toBe(scored.length);
      expect(outcome.minDivergence).toBe(Math.min(...scored.map(({ divergence }) => divergence)));
    },
  );

  it('unguided asks for no gradient, and its draws are its own', async () => {
    const { scorer } = parts;
    const blind: SuffixScorer = {
      ...{ answerLength: scorer.answerLength },
      score: (base, candidates) => scorer.score(base, candidates),
      rankTokens: () => Promise.reject(new Error('An unguided search has no gradient.')),
      keepRoundTrips: (suffixes) => scorer.keepRoundTrips(suffixes),
    };
    const random = createRandom(1, 'blind');
    const starts = [randomSuffix(allowed, tinySettings.suffixLength, random)];
    const run = (seed: number) =>
      searchSuffix(
        { scorer: blind, allowed, starts, random: createRandom(seed, 'blind') },
        { ...settings, searchMode: 'unguided' },
      );
    const [outcome, again, other] = [await run(1), await run(1), await run(2)];
    expect(again).toEqual(outcome);
    expect(other).not.toEqual(outcome);
  });

  it.each(['unguided', 'blind'] as const)('%s scores exactly as many, each once', async (searchMode) => {
    for (const changes of [{ merges: 5 }, { merges: 1, moves: 1 }, { epsilon: 0.02 }, { topTokens: 1 }]) {
      const { outcome: attack } = await search(changes);
      const { outcome, scored } = await search({ ...changes, searchMode }, 2, attack);
      expect(outcome.scoredCandidates).toBe(attack.scoredCandidates);
      expect(new Set(scored.map(({ suffixIds }) => keyOf(suffixIds))).size).toBe(outcome.scoredCandidates);
      expect(outcome.finalists.length).toBeGreaterThanOrEqual(attack.finalists.length);
      expect(outcome.trace).toHaveLength(settings.steps);
    }
  });

  it('tries no suffix twice, and only allowed tokens', async () => {
    const { scored } = await search();
    const keys = scored.map(({ suffixIds }) => keyOf(suffixIds));
    expect(new Set(keys).size).toBe(keys.length);
    for (const { suffixIds } of scored) for (const token of suffixIds) expect(allowed).toContain(token);
  });

  it('finds suffixes whose text gives the audited ids again', async () => {
    const { target, prompt } = parts;
    for (const { suffixIds } of (await search()).outcome.finalists) {
      const text = suffixText(target, prompt, suffixIds);
      expect(await target.tokenizer.encode(`abcdefgh${text}ijk`)).toEqual(joinPrompt(prompt, suffixIds));
    }
  });

  it('gives the same result for the same seed', async () => {
    const [first, again, other] = [await search(), await search(), await search({}, 2)];
    expect(again.outcome).toEqual(first.outcome);
    expect(other.outcome.finalists).not.toEqual(first.outcome.finalists);
  });

  it('as a control only lowers the divergence', async () => {
    const { outcome, scored } = await search({ searchMode: 'preservation', epsilon: 1e-9 });
    const divergences = outcome.trace.map(({ divergence }) => divergence);
    expect(divergences).toEqual([...divergences].sort((left, right) => right - left));
    expect(divergences.at(-1)).toBe(Math.min(...scored.map(({ divergence }) => divergence)));
  });

  it('says how close it came where everything is vetoed', async () => {
    const { outcome } = await search({ epsilon: 1e-9 });
    expect(outcome.finalists).toEqual([]);
    expect(outcome.minDivergence).toBeGreaterThan(1e-9);
    expect(outcome.minDivergence).toBeLessThan(Infinity);
  });

  it('stops at the step in which it is interrupted', async () => {
    const abort = new AbortController();
    const random = createRandom(1, 'stop');
    let steps = 0;
    const stopped = searchSuffix(
      {
        scorer: parts.scorer,
        allowed,
        starts: [randomSuffix(allowed, tinySettings.suffixLength, random)],
        random,
        signal: abort.signal,
        onStep: ({ step }) => {
          steps = step;
          if (step === 2) abort.abort();
        },
      },
      settings,
    );
    await expect(stopped).rejects.toMatchObject({ name: 'AbortError' });
    expect(steps).toBe(2);
  });
});

/** Suffixes of three tokens without a gradient; the caller says what each is worth. */
function plainScorer(
  worth: (suffixIds: readonly number[]) => Partial<Scored>,
  onVisit: (suffix: string) => void = () => undefined,
): SuffixScorer {
  const neutral = { degradation: 0, divergence: 0, length: 3, followed: 10, answerMarginLoss: 0 };
  return {
    answerLength: 10,
    score: (_, candidates) =>
      Promise.resolve(
        candidates.map((candidate) => ({ ...candidate, ...neutral, ...worth(candidate.suffixIds) })),
      ),
    rankTokens(suffixIds, _heading, ranking) {
      onVisit(keyOf(suffixIds));
      const promising = rankTokens(suffixIds, new Float32Array(3 * 9), ranking);
      return Promise.resolve({ promising, before: 0, after: 0 });
    },
    keepRoundTrips: (suffixes) => Promise.resolve(suffixes.map(() => true)),
  };
}

const allowedThree = Int32Array.of(4, 5, 6);
const total = (ids: readonly number[]): number => ids.reduce((sum, id) => sum + id, 0);

describe('without gain', () => {
  it('goes on from the best suffix that it has not yet gone on from, when its patience ends', async () => {
    // Nothing is ever better than a start, so that every step is a step without gain.
    const visited: string[] = [];
    const isStart = ([first, ...others]: readonly number[]) => others.every((id) => id === first);
    const scorer = plainScorer(
      (ids) => ({ degradation: isStart(ids) ? 1 : 0 }),
      (suffix) => visited.push(suffix),
    );
    await searchSuffix(
      { scorer, allowed: allowedThree, starts: [[1, 1, 1], [2, 2, 2]], random: createRandom(1) }, // prettier-ignore
      { ...settings, steps: 5, patience: 2, moves: 1, candidates: 1 },
    );
    // Two steps from each, for which one gradient is enough.
    expect(visited.slice(0, 2)).toEqual(['1 1 1', '2 2 2']);
    expect(visited[2]).toMatch(/[456]/);
    expect(visited).toHaveLength(3);
  });
});

describe('what a search hands on', () => {
  const run = (worth: (ids: readonly number[]) => Partial<Scored>, changes: Partial<SearchSettings> = {}) =>
    searchSuffix(
      { scorer: plainScorer(worth), allowed: allowedThree, starts: [[4, 4, 5]], random: createRandom(2) },
      { ...settings, steps: 12, candidates: 9, ...changes },
    );

  it('climbs the objective, and hands on the shortest accepted lengths that it met', async () => {
    const { finalists, trace } = await run((ids) => ({ degradation: total(ids), length: 20 - total(ids) }));
    expect(finalists[0]).toMatchObject({ suffixIds: [6, 6, 6], length: 2 });
    expect(finalists).toHaveLength(settings.finalists);
    const lengths = finalists.map(({ length }) => length);
    expect(lengths).toEqual([...lengths].sort((left, right) => left - right));
    expect(trace.at(-1)!.acceptedLength).toBe(2);
  });

  it('is nothing under which the target leaves the answer, where that has to stay', async () => {
    // The shorter a suffix makes drafts, the sooner the target leaves the answer: 4 4 4 alone follows all of it.
    const answerMarginLoss = (ids: readonly number[]): Partial<Scored> => ({
      ...{ degradation: total(ids), length: 20 - total(ids) },
      followed: ids.every((id) => id === 4) ? 10 : 8,
      answerMarginLoss: ids.filter((id) => id !== 4).length,
    });
    const free = await run(answerMarginLoss, { keep: 'distribution' });
    expect(free.finalists[0]!.suffixIds).toEqual([6, 6, 6]);
    for (const keep of ['similar', 'identical'] as const) {
      const { finalists } = await run(answerMarginLoss, { keep });
      expect(finalists.map(({ suffixIds }) => suffixIds)).toEqual([[4, 4, 4]]);
    }
  });

  it('is chosen by the same rule in a blind search, which does not follow the objective', async () => {
    const worth = (ids: readonly number[]): Partial<Scored> => ({
      degradation: total(ids),
      length: 20 - total(ids),
    });
    const { finalists, trace } = await run(worth, { searchMode: 'blind', steps: 4 });
    const lengths = finalists.map(({ length }) => length);
    expect(lengths).toEqual([...lengths].sort((left, right) => left - right));
    // With the objective turned around it takes the very same way.
    const turned = await run((ids) => ({ ...worth(ids), degradation: -total(ids) }), {
      ...{ searchMode: 'blind', steps: 4 },
    });
    expect(turned.trace.map(({ degradation }) => -degradation)).toEqual(
      trace.map(({ degradation }) => degradation),
    );
  });
});

describe('a control that matches the effort of another search', () => {
  // 27 suffixes; those that begin with 4 are inside the bounds.
  const worth = (ids: readonly number[]): Partial<Scored> => ({
    ...{ degradation: -total(ids), length: total(ids), divergence: ids[0] === 4 ? 0 : 9 },
  });
  const run = (match: SearchEffort, changes: Partial<SearchSettings> = {}) =>
    searchSuffix(
      {
        ...{ scorer: plainScorer(worth), match, allowed: allowedThree },
        ...{ starts: [[5, 5, 5]], random: createRandom(3) },
      },
      { ...settings, steps: 6, candidates: 2, moves: 1, merges: 1, searchMode: 'unguided', ...changes },
    );

  it.each([1, 2, 7, 13])('scores %i suffixes, in the steps that it has', async (scoredCandidates) => {
    const outcome = await run({ scoredCandidates, decodedSuffixes: 0 });
    expect(outcome.scoredCandidates).toBe(scoredCandidates);
    expect(outcome.trace).toHaveLength(6);
  });

  it('takes more steps where the changes around its suffixes are used up', async () => {
    const { scoredCandidates, trace } = await run({ scoredCandidates: 20, decodedSuffixes: 0 });
    expect(scoredCandidates).toBe(20);
    expect(trace.length).toBeGreaterThan(6);
  });

  it('goes on until it has as many finalists, up to twice the effort', async () => {
    const few = await run({ scoredCandidates: 6, decodedSuffixes: 0 });
    const wanted = few.finalists.length + 1;
    const more = await run({ scoredCandidates: 6, decodedSuffixes: wanted });
    expect(more.finalists.length).toBeGreaterThanOrEqual(wanted);
    expect(more.scoredCandidates).toBeLessThan(14);
  });

  it('ends where no suffix is left to try', async () => {
    const outcome = await run({ scoredCandidates: 1000, decodedSuffixes: 4 });
    expect(outcome.scoredCandidates).toBeLessThanOrEqual(27);
    expect(outcome.finalists[0]!.suffixIds).toEqual([4, 4, 4]);
  });
});
