import { describe, expect, it } from 'vitest';
import { chiSquareExcess } from '../../../test/chi-square.js';
import { createRandom } from '../../core/random.js';
import { logSumExp, topIndices } from '../../core/vector.js';
import type { DraftScores, ScoreDetail } from '../tree/draft-scores.js';
import type { Ask, GrowingDraft, LevelPrograms } from './grow-tree.js';
import { growTree } from './grow-tree.js';
import { type ResolvedPolicy, resolvePolicy } from './policy.js';
import { type HostLaws, isDrawn, pathTo } from './token-tree.js';
import { namedShape, shapeFromPaths } from './tree-shapes.js';

interface Call {
  readonly nodes: readonly number[];
  readonly depths: readonly number[];
  readonly want: ScoreDetail;
}

/** Scores of the token behind a path of tokens, root included. [vocabulary] */
type Script = (path: readonly number[]) => Float32Array;

function scriptedSession(script: Script): LevelPrograms & { readonly calls: Call[] } {
  const calls: Call[] = [];
  return {
    calls,
    expand(draft, nodes, want): Promise<DraftScores> {
      calls.push({ nodes, depths: nodes.map((node) => draft.depths[node]!), want });
      const rows = nodes.map((node) => script(tokensTo(draft, node)));
      return Promise.resolve({
        top(row, count) {
          const best = topIndices(rows[row]!, count);
          const total = logSumExp(rows[row]!);
          const logProbabilities = Array.from(best, (token) => rows[row]![token]! - total);
          return { tokens: best, logProbabilities };
        },
        logits: (row) => rows[row]!,
      });
    },
  };
}

function tokensTo({ tokens, parents }: GrowingDraft, node: number): number[] {
  const path: number[] = [];
  for (let at = node; at >= 0; at = parents[at]!) path.unshift(tokens[at]!);
  return path;
}

const vocabularySize = 12;
const root = 3;

/** Different for every path, the same every time. */
const random: Script = (path) => {
  const source = createRandom(`scores ${path.join()}`);
  return Float32Array.from({ length: vocabularySize }, () => 4 * source.next());
};

function request(policy: ResolvedPolicy, changes: Partial<Ask> = {}): Ask {
  const sampling = { temperature: 0 };
  return { root, policy, sampling, random: createRandom(1), depthLimit: Infinity, ...changes };
}

/** Every node as its path of tokens below the root. */
function tokenPaths(tree: Awaited<ReturnType<typeof growTree>>): string[] {
  return Array.from(tree.tokens.keys(), (node) =>
    pathTo(tree, node)
      .map((at) => tree.tokens[at])
      .join(' '),
  ).slice(1);
}

describe('a chain', () => {
  it('follows the best token', async () => {
    const session = scriptedSession(random);
    const tree = await growTree(session, request({ kind: 'chain', length: 4 }));
    const path = [root];
    for (let level = 0; level < 4; level++) path.push(topIndices(random(path), 1)[0]!);
    expect([...tree.tokens]).toEqual(path);
    expect([...tree.parents]).toEqual([-1, 0, 1, 2, 3]);
    expect(isDrawn(tree)).toBe(false);
    expect(session.calls.map(({ want }) => want)).toEqual(['top', 'top', 'top', 'top']);
  });

  it.each([
    [0, 1],
    [1, 2],
    [3, 4],
    [9, 5],
  ])('of 4 within %i levels has %i nodes', async (depthLimit, size) => {
    const session = scriptedSession(random);
    const tree = await growTree(session, request({ kind: 'chain', length: 4 }, { depthLimit }));
    expect(tree.tokens).toHaveLength(size);
    expect(session.calls).toHaveLength(size - 1);
  });
});

describe('a static tree', () => {
  const paths = [[0], [2], [5], [0, 1], [0, 3], [2, 0], [0, 3, 2], [2, 0, 0]];
  const policy = { kind: 'tree', shape: shapeFromPaths('mine', paths) } as const;

  it('holds the tokens of the ranks that its shape names', async () => {
    const session = scriptedSession(random);
    const tree = await growTree(session, request(policy));
    const expected = paths.map((ranks) => {
      const path = [root];
      for (const rank of ranks) path.push(topIndices(random(path), rank + 1)[rank]!);
      return path.slice(1).join(' ');
    });
    expect(tokenPaths(tree)).toEqual(expected);
    expect(session.calls.map(({ depths }) => depths)).toEqual([[0], [1, 1], [2, 2]]);
  });

  it('is cut at the depth that there is room for', async () => {
    const tree = await growTree(scriptedSession(random), request(policy, { depthLimit: 2 }));
    expect(Math.max(...tree.depths)).toBe(2);
    expect(tree.tokens).toHaveLength(7);
  });

  it('asks for one detail on every level, whole rows where a deep rank needs them', async () => {
    const deep = { kind: 'tree', shape: shapeFromPaths('deep', [[0], [0, 11]]) } as const;
    const session = scriptedSession(random);
    await growTree(session, request(deep));
    expect(session.calls.map(({ want }) => want)).toEqual(['logits', 'logits']);
    const shallow = scriptedSession(random);
    await growTree(shallow, request({ kind: 'tree', shape: namedShape('mc_sim_7b_63') }));
    expect(new Set(shallow.calls.map(({ want }) => want))).toEqual(new Set(['top']));
  });
});

describe('a drawn tree', () => {
  const sampling = { temperature: 1 };
  const shape = (...paths: number[][]): ResolvedPolicy => ({
    kind: 'tree',
    shape: shapeFromPaths('mine', paths),
  });

  it('keeps the distribution that the children of each node were drawn from', async () => {
    const policy = shape([0], [1], [2], [0, 0], [1, 0]);
    const tree = await growTree(scriptedSession(random), request(policy, { sampling }));
    expect(isDrawn(tree)).toBe(true);
    expect(tree.tokens).toHaveLength(6);
    const scores = random([root]);
    const total = logSumExp(scores);
    const laws = tree.laws as HostLaws;
    laws[0]!.forEach((probability, token) => {
      expect(probability).toBeCloseTo(Math.exp(scores[token]! - total), 5);
    });
    expect(laws[1]).toBeDefined();
    expect(laws[2]).toBeDefined();
    expect(laws[3]).toBeUndefined();
  });

  it('is smaller where the distribution has fewer tokens than the shape has siblings', async () => {
    // Two tokens are possible at the root, one below it.
    const narrow: Script = (path) =>
      Float32Array.from({ length: vocabularySize }, (_, token) => (token < 3 - path.length ? 1 : -Infinity));
    const policy = shape([0], [1], [2], [0, 0], [0, 1], [2, 0]);
    for (let seed = 0; seed < 10; seed++) {
      const changes = { sampling, random: createRandom(seed) };
      const tree = await growTree(scriptedSession(narrow), request(policy, changes));
      expect([...tree.parents]).toEqual([-1, 0, 0, 1]);
      expect([...tree.tokens.slice(1, 3)].sort()).toEqual([0, 1]);
      expect(tree.tokens[3]).toBe(0);
    }
  });

  it('draws the first sibling from the distribution itself, whatever ranks the shape leaves out', async () => {
    const distribution = [0.5, 0.25, 0.15, 0.1];
    const script: Script = () => Float32Array.from(distribution, Math.log);
    const counts = new Array<number>(4).fill(0);
    const seconds = new Array<number>(4).fill(0);
    const source = createRandom('gaps');
    for (let draw = 0; draw < 20_000; draw++) {
      const tree = await growTree(
        scriptedSession(script),
        request(shape([1], [3]), { sampling, random: source }),
      );
      counts[tree.tokens[1]!]! += 1;
      seconds[tree.tokens[2]!]! += 1;
    }
    expect(chiSquareExcess(counts, distribution)).toBeLessThan(1);
    const second = distribution.map((_, token) =>
      distribution.reduce(
        (mass, first, other) =>
          other === token ? mass : mass + (first * distribution[token]!) / (1 - first),
        0,
      ),
    );
    expect(chiSquareExcess(seconds, second)).toBeLessThan(1);
  });
});

describe('a dynamic tree', () => {
  /** EAGLE-2 as its paper tells it: expand the best of each level, then keep the best of all. */
  function oracle({ total, depth, topK }: { total: number; depth: number; topK: number }): string[] {
    interface Node {
      readonly path: readonly number[];
      readonly score: number;
    }
    const expand = ({ path, score }: Node): Node[] => {
      const scores = random(path);
      const sum = logSumExp(scores);
      return Array.from(topIndices(scores, topK), (token) => ({
        path: [...path, token],
        score: score + scores[token]! - sum,
      }));
    };
    const best = (nodes: Node[], count: number): Node[] =>
      [...nodes].sort((left, right) => right.score - left.score).slice(0, count);
    const all: Node[] = [];
    let frontier: Node[] = [{ path: [root], score: 0 }];
    for (let level = 0; level <= depth; level++) {
      const children = frontier.flatMap(expand);
      all.push(...children);
      frontier = best(children, topK);
    }
    return best(all, total - 1).map(({ path }) => path.slice(1).join(' '));
  }

  it.each([
    { total: 12, depth: 2, topK: 3 },
    { total: 2, depth: 1, topK: 1 },
    { total: 60, depth: 5, topK: 10 },
    { total: 22, depth: 2, topK: 3 },
  ])('keeps the most likely nodes: %j', async (sizes) => {
    const session = scriptedSession(random);
    const tree = await growTree(session, request({ kind: 'dynamic', ...sizes }));
    expect([...tokenPaths(tree)].sort()).toEqual(oracle(sizes).sort());
    expect(isDrawn(tree)).toBe(false);
    expect(session.calls).toHaveLength(sizes.depth + 1);
  });

  it('keeps parents of nodes that tie with them', async () => {
    // A certain token: every child scores exactly what its parent scores.
    const certain: Script = () =>
      Float32Array.from({ length: vocabularySize }, (_, token) => (token === 4 ? 0 : -Infinity));
    const tree = await growTree(
      scriptedSession(certain),
      request({ kind: 'dynamic', total: 4, depth: 3, topK: 2 }),
    );
    expect(tokenPaths(tree)).toEqual(['4', '4 4', '4 4 4']);
  });

  it('grows no deeper than there is room, and then has fewer nodes', async () => {
    const session = scriptedSession(random);
    const policy = { kind: 'dynamic', total: 40, depth: 5, topK: 3 } as const;
    const tree = await growTree(session, request(policy, { depthLimit: 2 }));
    expect(session.calls).toHaveLength(2);
    expect(tree.tokens).toHaveLength(1 + 3 + 9);
    const none = await growTree(session, request(policy, { depthLimit: 0 }));
    expect([...none.tokens]).toEqual([root]);
  });

  it('is not drawn, whatever the temperature', async () => {
    const policy = { kind: 'dynamic', total: 6, depth: 1, topK: 3 } as const;
    const cold = await growTree(scriptedSession(random), request(policy));
    const warm = await growTree(scriptedSession(random), request(policy, { sampling: { temperature: 1 } }));
    expect(warm).toEqual(cold);
  });
});

describe('resolvePolicy', () => {
  const drafter = { name: 'Medusa', maximumDepth: 3, vocabularySize: 8 };

  it('lets through what fits', () => {
    expect(resolvePolicy({ kind: 'chain', length: 3 }, drafter)).toEqual({ kind: 'chain', length: 3 });
    const dynamic = { kind: 'dynamic', total: 12, depth: 2, topK: 8 } as const;
    expect(resolvePolicy(dynamic, drafter)).toEqual(dynamic);
  });

  it('counts the levels of a chain and of a dynamic tree', () => {
    expect(() => resolvePolicy({ kind: 'chain', length: 4 }, drafter)).toThrow('asks for 4 levels');
    const deep = { kind: 'dynamic', total: 12, depth: 3, topK: 3 } as const;
    expect(() => resolvePolicy(deep, drafter)).toThrow('asks for 4 levels; Medusa has 3 heads');
    const wide = { kind: 'dynamic', total: 12, depth: 1, topK: 9 } as const;
    expect(() => resolvePolicy(wide, drafter)).toThrow('the best 9 of 8 tokens');
    const named = { kind: 'tree', source: { kind: 'named', name: 'mc_sim_7b_63' } } as const;
    expect(() => resolvePolicy(named, { ...drafter, vocabularySize: 100 })).toThrow('reaches depth 3');
  });
});
