import { describe, expect, it } from 'vitest';
import { maxDraftNodes } from '../../core/limits.js';
import { createRandom } from '../../core/random.js';
import type { CausalModel } from '../../model/causal-model.js';
import { splitRows } from '../../core/vector.js';
import type { Runtime } from '../../runtime/program.js';
import { allocateHostRows, type RowBuffer } from '../../runtime/row-buffer.js';
import { type Drafter, noSuggestion, type VerifiedTokens } from '../drafter.js';
import { ngram } from '../ngram/ngram.js';
import type { Ask } from '../tree/grow-tree.js';
import { countDraftNodes } from '../tree/policy.js';
import { chainTree, createTree } from '../tree/token-tree.js';
import { joinDrafters } from './joined.js';
import { joinSources, splitSource } from './sources.js';
import { statesOf } from './target-states.js';

const runtime = { allocate: allocateHostRows } as unknown as Runtime;

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
  const session = joinDrafters([lookup, drafter], runtime).startSession();
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

  it('have smaller shapes where they would have too many nodes together', async () => {
    const asked: Ask[] = [];
    const member = (): Drafter => {
      const { drafter } = countingDrafter();
      const startSession: Drafter['startSession'] = (scheduler) =>
        Object.assign(drafter.startSession(scheduler), {
          propose(ask: Ask) {
            asked.push(ask);
            const count = countDraftNodes(ask.policy);
            const parents = Int32Array.from({ length: count + 1 }, (_, node) => Math.min(node - 1, 0));
            return Promise.resolve(createTree({ tokens: parents.map((_, node) => node), parents }));
          },
        });
      return { ...drafter, startSession };
    };
    const session = joinDrafters([member(), member(), member()], runtime).startSession();
    const policy = { kind: 'dynamic', total: 700, depth: 2, topK: 2 } as const;
    const sampling = { temperature: 0 };
    await session.propose({ root: 0, policy, sampling, random: createRandom(1), depthLimit: 8 });
    expect(asked.map((ask) => countDraftNodes(ask.policy))).toEqual([699, maxDraftNodes - 1 - 699]);
  });

  it('each read their own states of those that the target gives for all', async () => {
    const seen: Record<string, Promise<Float32Array>> = {};
    const reader = (name: string, reads: Drafter['reads'], taps: readonly number[]): Drafter => {
      const { drafter } = countingDrafter({ name, reads, taps });
      const startSession: Drafter['startSession'] = (scheduler) =>
        Object.assign(drafter.startSession(scheduler), {
          observe({ states }: VerifiedTokens) {
            seen[name] = states!.read();
          },
        });
      return { ...drafter, startSession };
    };
    const members = [
      reader('one', 'features', []),
      reader('two', 'taps', [4, 1]),
      reader('three', 'taps', [4]),
    ];
    const joined = joinDrafters([lookup, ...members], runtime);
    expect(joined).toMatchObject({
      name: 'ngram:2,8+one+two+three',
      reads: 'both',
      taps: [1, 4],
      parameterCount: 3,
    });
    const rowsOf = (width: number, values: readonly number[]): RowBuffer => {
      const rows = runtime.allocate(2, width);
      rows.write(Float32Array.from(values));
      return rows;
    };
    const states = statesOf(runtime, joined, {
      features: rowsOf(2, [1, 2, 3, 4]),
      taps: rowsOf(4, [11, 12, 41, 42, 13, 14, 43, 44]), // layers 1 and 4
    });
    const session = joined.startSession();
    session.observe({ tokens: Int32Array.of(5, 6), states, next: 7 });
    const rows: Record<string, number[][]> = {};
    for (const [name, read] of Object.entries(seen))
      rows[name] = splitRows(await read, 2).map((row) => [...row]);
    expect(rows).toEqual({
      one: [[1, 2], [3, 4]], // prettier-ignore
      two: [[41, 42], [11, 12], [43, 44], [13, 14]], // prettier-ignore
      three: [[41, 42], [43, 44]], // prettier-ignore
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
