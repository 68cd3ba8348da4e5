import { describe, expect, it } from 'vitest';
import { createRandom } from '../../core/random.js';
import type { DraftPolicy } from '../tree/policy.js';
import { type DraftSource, growTree, resolvePolicy } from '../tree/grow-tree.js';
import type { Drafter, DraftSession } from '../drafter.js';
import { certainScores } from '../programs/scores.js';
import { addLookup } from './hybrid.js';
import { parseHybrid } from './ngram.js';

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
  return { asked, drafter: addLookup('ngram:2,8', drafter) };
}

type FixedPolicy = Exclude<DraftPolicy, { kind: 'auto' }>;
const chain = { kind: 'chain', length: 3 } as const;
const { drafter: plainest } = countingDrafter();

const read = (session: DraftSession, tokens: readonly number[], next: number): void => {
  session.observe({ tokens: Int32Array.from(tokens), states: undefined, next });
};

async function grow(session: DraftSession, root: number, policy: FixedPolicy, source?: DraftSource) {
  const request = { root, sampling: { temperature: 0 }, random: createRandom(1), depthLimit: 8, source };
  return growTree(session, { ...request, policy: resolvePolicy(policy, plainest) });
}

async function draft(text: readonly number[], policy: FixedPolicy, source?: DraftSource) {
  const { asked, drafter } = countingDrafter();
  const session = drafter.startSession();
  read(session, text.slice(0, -1), text.at(-1)!);
  const tree = await grow(session, text.at(-1)!, policy, source);
  return { tokens: [...tree.tokens], parents: [...tree.parents], asked: asked.times };
}

const repeating = [1, 2, 3, 4, 5, 1, 2, 3, 4];
const once = [1, 2, 3, 4, 1, 5];

/** Steps with `chain:3` along an answer: [step] the tokens that were drafted. */
async function follow(prompt: readonly number[], answer: readonly number[]) {
  const { drafter } = countingDrafter();
  const session = drafter.startSession();
  read(session, prompt, answer[0]!);
  const drafts: (readonly number[])[] = [];
  let root = 0;
  while (root + 4 < answer.length) {
    const tree = await grow(session, answer[root]!, chain);
    const drafted = [...tree.tokens].slice(1);
    drafts.push(drafted);
    const wrong = drafted.findIndex((token, level) => token !== answer[root + 1 + level]);
    const next = root + 1 + (wrong < 0 ? drafted.length : wrong);
    read(session, answer.slice(root, next), answer[next]!);
    root = next;
  }
  return drafts;
}

describe('a lookup beside a drafter', () => {
  it('drafts the chain where it is likely to be right, and asks the drafter otherwise', async () => {
    expect(await draft(repeating, chain)).toMatchObject({ tokens: [4, 5, 1, 2], asked: 0 });
    expect(await draft(once, chain)).toMatchObject({ tokens: [5, 9, 9, 9], asked: 3 });
    // The text went on in four ways.
    const undecided = [1, 2, 3, 7, 1, 2, 4, 8, 1, 2, 5, 9, 1, 2, 6, 0, 1, 2];
    expect((await draft(undecided, chain)).asked).toBe(3);
    // One is fewer than ngram:2,8 looks for.
    expect((await draft([1, 2, 3, 4, 1], chain, 'lookup')).tokens).toEqual([1]);
  });

  it('drafts from the source that is asked for', async () => {
    expect(await draft(repeating, chain, 'drafter')).toMatchObject({ tokens: [4, 9, 9, 9], asked: 3 });
    expect(await draft([1, 2, 3, 4, 1, 2], chain, 'lookup')).toMatchObject({
      tokens: [2, 3, 4, 1],
      asked: 0,
    });
    expect(await draft(once, chain, 'lookup')).toMatchObject({ tokens: [5], asked: 0 });
  });

  it('takes over from a drafter that fails', async () => {
    // Two tokens match in every round of ten; what follows them is right.
    const prompt = Array.from({ length: 40 }, (_, at) => 100 + at);
    const answer = Array.from({ length: 18 }, (_, at) => [
      100 + 2 * at,
      101 + 2 * at,
      500 + at,
      600 + at,
    ]).flat();
    const drafts = await follow(prompt, answer);
    const isLookup = drafts.map((tokens) => tokens[0] !== 9);
    expect(isLookup.slice(0, 3)).toContain(false);
    expect(isLookup.filter((each, step) => each && step > 15).length).toBeGreaterThan(5);
  });

  it('leaves the draft to a drafter that does better', async () => {
    // Earlier matches never go on as they did, and the drafter is always right.
    const prompt = Array.from({ length: 20 }, (_, at) => [1, 2, 3, 4, 20 + at]).flat();
    const answer = Array.from({ length: 30 }, () => 9);
    const drafts = await follow([...prompt, 1, 2, 3, 4], answer);
    expect(drafts.slice(1).every((tokens) => tokens.every((token) => token === 9))).toBe(true);
  });

  it('is merged into a tree as far as it is likely', async () => {
    const tree = { kind: 'dynamic', total: 3, depth: 1, topK: 1 } as const;
    const { tokens, parents } = await draft(repeating, tree);
    expect(tokens).toEqual([4, 9, 9, 5, 1]);
    expect(parents).toEqual([-1, 0, 1, 0, 3]);
    expect((await draft([1, 2, 3, 4, 1, 2], tree)).tokens).toEqual([2, 9, 9, 3]);
  });

  it('shares the nodes that the drafter drafted, too', async () => {
    const tree = { kind: 'dynamic', total: 3, depth: 1, topK: 1 } as const;
    const { tokens, parents } = await draft([1, 2, 3, 9, 4, 1, 2, 3], tree);
    expect(tokens).toEqual([3, 9, 9, 4]);
    expect(parents).toEqual([-1, 0, 1, 1]);
  });
});

describe('parseHybrid', () => {
  it('takes any drafter behind the lookup', () => {
    expect(parseHybrid('ngram+eagle3')).toEqual({ lookup: 'ngram:1,16', behind: 'eagle3' });
    expect(parseHybrid('ngram:1,4+./a+b')).toEqual({ lookup: 'ngram:1,4', behind: './a+b' });
    expect(parseHybrid('./ngram+x')).toBeUndefined();
    expect(parseHybrid('ngram:1,4')).toBeUndefined();
    expect(() => parseHybrid('ngram:4,1+eagle3')).toThrow('"ngram:4,1" is not understood');
  });
});
