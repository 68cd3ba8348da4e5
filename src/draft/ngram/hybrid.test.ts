import { describe, expect, it } from 'vitest';
import { createRandom } from '../../core/random.js';
import type { DraftPolicy } from '../tree/policy.js';
import { growTree, resolvePolicy } from '../tree/grow-tree.js';
import type { Drafter } from '../drafter.js';
import { certainScores } from '../programs/scores.js';
import { addLookup, parseHybrid } from './ngram.js';

/** Always drafts the token 9, and counts how often it is asked. */
function countingDrafter() {
  const asked = { times: 0 };
  const drafter: Drafter = {
    ...{ system: 'nine', name: 'nine', reads: 'tokens', maximumDepth: 8, vocabularySize: 10 },
    ...{ taps: [], parameterCount: 1, graph: undefined, prepare: () => Promise.resolve() },
    startSession: () => ({
      room: 100,
      observe: () => undefined,
      expand: () => {
        asked.times += 1;
        return Promise.resolve(certainScores(9, 10));
      },
      close: () => undefined,
    }),
  };
  return { asked, drafter: addLookup('ngram:2,4', drafter) };
}

async function draft(text: readonly number[], policy: Exclude<DraftPolicy, { kind: 'auto' }>) {
  const { asked, drafter } = countingDrafter();
  const session = drafter.startSession();
  const root = text.at(-1)!;
  session.observe({ tokens: Int32Array.from(text.slice(0, -1)), states: undefined, next: root });
  const request = { root, sampling: { temperature: 0 }, random: createRandom(1), depthLimit: 8 };
  const tree = await growTree(session, { ...request, policy: resolvePolicy(policy, drafter) });
  return { tokens: [...tree.tokens], parents: [...tree.parents], asked: asked.times };
}

const repeating = [1, 2, 3, 4, 1, 2];
const chain = { kind: 'chain', length: 3 } as const;

describe('a lookup in front of a drafter', () => {
  it('replaces the chain where the text repeats, and asks the drafter otherwise', async () => {
    expect(await draft(repeating, chain)).toMatchObject({ tokens: [2, 3, 4, 1], asked: 0 });
    expect(await draft([1, 2, 3, 4, 1, 5], chain)).toMatchObject({ tokens: [5, 9, 9, 9], asked: 3 });
    // One matching token is too few for ngram:2,4.
    expect((await draft([1, 2, 3, 4, 1], chain)).asked).toBe(3);
  });

  it('is merged into a tree', async () => {
    const tree = { kind: 'dynamic', total: 3, depth: 1, topK: 1 } as const;
    const { tokens, parents } = await draft(repeating, tree);
    expect(tokens).toEqual([2, 9, 9, 3, 4]);
    expect(parents).toEqual([-1, 0, 1, 0, 3]);
  });

  it('shares the nodes that the drafter drafted, too', async () => {
    const tree = { kind: 'dynamic', total: 3, depth: 1, topK: 1 } as const;
    const { tokens, parents } = await draft([1, 2, 9, 4, 1, 2], tree);
    expect(tokens).toEqual([2, 9, 9, 4]);
    expect(parents).toEqual([-1, 0, 1, 1]);
  });
});

describe('parseHybrid', () => {
  it('takes any drafter behind the lookup', () => {
    expect(parseHybrid('ngram+eagle3')).toEqual({ lookup: 'ngram:3,8', behind: 'eagle3' });
    expect(parseHybrid('ngram:1,4+./a+b')).toEqual({ lookup: 'ngram:1,4', behind: './a+b' });
    expect(parseHybrid('./ngram+x')).toBeUndefined();
    expect(parseHybrid('ngram:1,4')).toBeUndefined();
    expect(() => parseHybrid('ngram:4,1+eagle3')).toThrow('"ngram:4,1" is not understood');
  });
});
