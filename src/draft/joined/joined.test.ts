import { describe, expect, it } from 'vitest';
import { createRandom } from '../../core/random.js';
import type { CausalModel } from '../../model/causal-model.js';
import type { Drafter } from '../drafter.js';
import { noSuggestion } from '../drafter.js';
import { ngram } from '../ngram/ngram.js';
import type { Ask } from '../tree/grow-tree.js';
import { chainTree } from '../tree/token-tree.js';
import { joinDrafters } from './joined.js';
import { joinSources, splitSource } from './sources.js';

/** Always drafts the token 9 three times, and counts how often it is asked. */
function countingDrafter(changes: Partial<Drafter> = {}) {
  const asked = { times: 0 };
  const drafter: Drafter = {
    ...{ system: 'nine', name: 'nine', reads: 'tokens', maximumDepth: 8, vocabularySize: 10 },
    ...{ taps: [], parameterCount: 1, graph: undefined, prepare: () => Promise.resolve() },
    startSession: () => ({
      room: 100,
      observe: () => undefined,
      catchUp: () => Promise.resolve(),
      propose({ root, depthLimit }) {
        asked.times += 1;
        return Promise.resolve(chainTree(root, [9, 9, 9].slice(0, depthLimit)));
      },
      suggest: () => noSuggestion,
      close: () => undefined,
    }),
    ...changes,
  };
  return { asked, drafter };
}

const lookup = ngram.create('ngram:2,8', { configuration: { vocabularySize: 10 } } as CausalModel);

async function draft(text: readonly number[], changes: Partial<Ask> = {}) {
  const { asked, drafter } = countingDrafter();
  const session = joinDrafters([lookup, drafter]).startSession();
  session.observe({ tokens: Int32Array.from(text.slice(0, -1)), states: undefined, next: text.at(-1)! });
  const tree = await session.propose({
    ...{ root: text.at(-1)!, policy: { kind: 'chain', length: 3 }, sampling: { temperature: 0 } },
    ...{ random: createRandom(1), depthLimit: 8, ...changes },
  });
  session.close();
  return { tokens: [...tree.tokens], parents: [...tree.parents], asked: asked.times };
}

const repeating = [1, 2, 3, 4, 5, 1, 2, 3, 4];

describe('drafters that draft together', () => {
  it('propose into one tree', async () => {
    expect(await draft(repeating)).toEqual({
      tokens: [4, 5, 1, 2, 9, 9, 9],
      parents: [-1, 0, 1, 2, 0, 4, 5],
      asked: 1,
    });
  });

  it('share the nodes on which they agree', async () => {
    const { tokens, parents } = await draft([1, 2, 3, 9, 4, 1, 2, 3]);
    expect(tokens).toEqual([3, 9, 4, 1, 9, 9]);
    expect(parents).toEqual([-1, 0, 1, 2, 1, 4]);
  });

  it('leave out what a lookup thinks unlikely, unless only lookups are asked', async () => {
    // The text went on in four ways.
    const undecided = [1, 2, 3, 7, 1, 2, 4, 8, 1, 2, 5, 9, 1, 2, 6, 0, 1, 2];
    expect((await draft(undecided)).tokens).toEqual([2, 9, 9, 9]);
    const alone = await draft(undecided, { source: 'lookup' });
    expect(alone.tokens.length).toBeGreaterThan(1);
    expect(alone.asked).toBe(0);
  });

  it('are only as deep as there is room', async () => {
    expect((await draft(repeating, { depthLimit: 1 })).tokens).toEqual([4, 5, 9]);
    expect((await draft(repeating, { depthLimit: 0 })).tokens).toEqual([4]);
  });

  it('are refused where they read different states of the target', () => {
    const { drafter: features } = countingDrafter({ reads: 'features', name: 'one' });
    const { drafter: taps } = countingDrafter({ reads: 'taps', taps: [1, 2], name: 'two' });
    expect(() => joinDrafters([features, taps])).toThrow('one and two read different states');
    expect(joinDrafters([lookup, features, countingDrafter().drafter])).toMatchObject({
      ...{ name: 'ngram:2,8+one+nine', reads: 'features', parameterCount: 2 },
    });
  });
});

describe('splitSource', () => {
  it('names each drafter, and lookups by their lengths', () => {
    expect(splitSource('ngram+eagle3')).toEqual(['ngram:1,16', 'eagle3']);
    expect(splitSource('ngram:1,4+./a+sps')).toEqual(['ngram:1,4', './a', 'sps']);
    expect(splitSource('ngram:1,4')).toEqual(['ngram:1,4']);
    expect(splitSource('eagle3')).toEqual(['eagle3']);
    expect(() => splitSource('ngram:4,1+eagle3')).toThrow('"ngram:4,1" is not understood');
    expect(joinSources(splitSource('ngram+eagle3'))).toBe('ngram:1,16+eagle3');
  });
});
