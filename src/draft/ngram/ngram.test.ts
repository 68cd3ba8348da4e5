import { describe, expect, it } from 'vitest';
import { createRandom } from '../../core/random.js';
import { resolvePolicy } from '../tree/policy.js';
import { isDrawn } from '../tree/token-tree.js';
import { LookupIndex, type MatchLengths } from './lookup-index.js';
import { ngram, parseNgram } from './ngram.js';
import type { CausalModel } from '../../model/causal-model.js';

const lengths = (min: number, max: number): MatchLengths => ({ min, max });

function lookUp(text: readonly number[], lengths: MatchLengths, count: number): readonly number[] {
  const index = new LookupIndex(lengths);
  for (const token of text) index.push(token);
  return index.findVoted(count).map(({ token }) => token);
}

describe('a lookup finds', () => {
  it.each([
    ['nothing stood there before', [1, 2, 3, 4], lengths(1, 3), []],
    ['what followed the last tokens before', [1, 2, 3, 4, 1, 2], lengths(2, 4), [3, 4, 1]],
    ['the latest of two occurrences', [1, 2, 3, 1, 2, 4, 1, 2], lengths(2, 2), [4, 1, 2]],
    [
      'the longer match, though a shorter one is later',
      [9, 1, 2, 7, 8, 1, 2, 5, 9, 1, 2],
      lengths(1, 3),
      [7, 8, 1],
    ],
    ['no more than the longest is asked for', [9, 1, 2, 7, 8, 1, 2, 5, 9, 1, 2], lengths(1, 2), [5, 9, 1]],
    ['too short a match', [1, 2, 3, 9, 2], lengths(2, 4), []],
    ['the beginning of the text', [1, 2, 1], lengths(1, 4), [2, 1, 2]],
    ['a match at the beginning that is longer than the text before it', [1, 1], lengths(2, 4), []],
    ['a text that repeats one token', [5, 5, 5], lengths(2, 4), [5, 5, 5]],
    ['a text that repeats itself goes on', [1, 2, 1, 2, 1, 2], lengths(2, 4), [1, 2, 1]],
    ['one token', [1], lengths(1, 4), []],
  ])('%s', (_, text, lengths, expected) => {
    expect(lookUp(text, lengths, 3)).toEqual(expected);
  });
});

describe('ngram', () => {
  const drafter = ngram.create('ngram:1,2', { configuration: { vocabularySize: 8 } } as CausalModel);

  it('has nothing that could be trained, followed or drawn as a tree', () => {
    expect(drafter).toMatchObject({
      system: 'ngram',
      name: 'ngram:1,2',
      parameterCount: 0,
      graph: undefined,
    });
    expect(() => resolvePolicy({ kind: 'dynamic', total: 8, depth: 2, topK: 2 }, drafter)).toThrow(
      'The draft policy is dynamic:8,2,2; ngram:1,2 has one token to propose at a time',
    );
  });

  it('is written in one way', () => {
    expect(ngram.normalise('ngram')).toBe('ngram:1,4');
    expect(parseNgram('ngram:1,64')).toEqual({ min: 1, max: 64 });
  });

  it.each([0, 0.8])(
    'drafts the same chain at temperature %s, as far as it knows one',
    async (temperature) => {
      const session = drafter.startSession();
      const request = {
        policy: { kind: 'chain', length: 4 } as const,
        ...{ root: 3, sampling: { temperature }, random: createRandom(1), depthLimit: 2 },
      };
      const read = (tokens: number[], next: number) => {
        session.observe({ tokens: Int32Array.from(tokens), states: undefined, next });
      };
      read([1, 2, 3, 4, 5], 3);
      expect([...(await session.propose(request)).tokens]).toEqual([3, 4, 5]);
      read([3, 4], 7);
      const empty = await session.propose({ ...request, root: 7 });
      expect([...empty.tokens]).toEqual([7]);
      expect(isDrawn(empty)).toBe(false);
    },
  );
});
