import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createRandom, drawWithoutReplacement } from '../../core/random.js';
import { argmax, sum } from '../../core/vector.js';
import { acceptanceProbability } from '../../../test/support/decode/acceptance-probability.js';
import { childrenOf } from '../../../test/support/token-trees.js';
import { chainTree, createTree } from '../../draft/tree/token-tree.js';
import { hostChances, subtractDistribution } from './node-chances.js';
import { verificationRules, verifyGreedy, verifyRejection, verifyTypical } from './verification.js';

const VOCABULARY = 6;

/** Distributions with zeros, ties and very small entries. */
const distributionArbitrary = fc
  .array(fc.oneof(fc.constant(0), fc.constant(1), fc.double({ min: 1e-6, max: 1, noNaN: true })), {
    minLength: VOCABULARY,
    maxLength: VOCABULARY,
  })
  .filter((weights) => sum(weights) > 0)
  .map((weights) => Float32Array.from(weights, (weight) => weight / sum(weights)));

const oneHot = (token: number) =>
  Float32Array.from({ length: VOCABULARY }, (_, index) => (index === token ? 1 : 0));

/** A random tree whose siblings are drawn from random distributions, or ranked by them. */
const treeArbitrary = fc
  .record({
    widths: fc.array(fc.integer({ min: 0, max: 3 }), { minLength: 1, maxLength: 8 }),
    distributions: fc.array(distributionArbitrary, { minLength: 30, maxLength: 30 }),
    seed: fc.nat(),
    origin: fc.constantFrom('sampled', 'deterministic'),
  })
  .map(({ widths, distributions, seed, origin }) => {
    const random = createRandom(seed);
    const tokens = [0];
    const parents = [-1];
    widths.forEach((width, node) => {
      if (node >= tokens.length) return;
      for (const token of drawWithoutReplacement(distributions[node]!, width, random)) {
        tokens.push(token);
        parents.push(node);
      }
    });
    return createTree({
      tokens: Int32Array.from(tokens),
      parents: Int32Array.from(parents),
      laws: origin === 'sampled' ? distributions : undefined,
    });
  });

describe('the identities of speculative sampling', () => {
  it('accepts with probability 1 - total variation; the residual has the rest of the mass', () => {
    fc.assert(
      fc.property(distributionArbitrary, distributionArbitrary, (target, draft) => {
        const accepted = acceptanceProbability(target, draft);
        const excess = (left: Float32Array, right: Float32Array) =>
          sum(left.map((probability, token) => Math.max(0, probability - right[token]!)));
        const variation = sum(target.map((probability, token) => Math.abs(probability - draft[token]!))) / 2;
        expect(accepted).toBeCloseTo(1 - variation, 5);
        expect(excess(target, draft)).toBeCloseTo(1 - accepted, 5);
        expect(excess(draft, target)).toBeCloseTo(1 - accepted, 5);
      }),
    );
  });

  it('emits the target distribution: q min(1, p/q) + (1 - accepted) residual = p', () => {
    fc.assert(
      fc.property(distributionArbitrary, distributionArbitrary, (target, draft) => {
        const accepted = acceptanceProbability(target, draft);
        const residual = subtractDistribution(target, draft, 1, new Float32Array(VOCABULARY)) ?? target;
        expect(sum(residual)).toBeCloseTo(1, 5);
        target.forEach((probability, token) => {
          const kept = Math.min(draft[token]!, probability);
          expect(kept + (1 - accepted) * residual[token]!).toBeCloseTo(probability, 5);
        });
      }),
    );
  });

  it('treats a certain draft as p(x) and p without x', () => {
    fc.assert(
      fc.property(distributionArbitrary, fc.nat({ max: VOCABULARY - 1 }), (target, token) => {
        expect(acceptanceProbability(target, oneHot(token))).toBeCloseTo(target[token]!, 6);
        fc.pre(target[token]! < 0.999);
        const residual = subtractDistribution(target, oneHot(token), 1, new Float32Array(VOCABULARY))!;
        residual.forEach((probability, other) => {
          const expected = other === token ? 0 : target[other]! / (1 - target[token]!);
          expect(probability).toBeCloseTo(expected, 3);
        });
      }),
    );
  });

  it('leaves nothing of a distribution minus itself, rather than NaN', () => {
    const distribution = Float32Array.of(0.5, 0.5);
    expect(subtractDistribution(distribution, distribution, 1, new Float32Array(2))).toBeUndefined();
  });
});

describe('verifyGreedy', () => {
  //   0 -> 1 (token 5), 2 (token 3);  2 -> 3 (token 1), 4 (token 2);  4 -> 5 (token 0)
  const tree = createTree({
    tokens: Int32Array.of(9, 5, 3, 1, 2, 0),
    parents: Int32Array.of(-1, 0, 0, 2, 2, 4),
  });

  it.each([
    ['nothing', [4, 0, 0, 0, 0, 0], [], 4],
    ['a prefix', [3, 0, 2, 0, 4, 0], [2, 4], 4],
    ['a whole path and a bonus token', [3, 0, 2, 0, 0, 7], [2, 4, 5], 7],
    ['the other branch', [5, 8, 2, 0, 0, 0], [1], 8],
  ])('accepts %s', (_, targetArgmax, path, nextToken) => {
    expect(verifyGreedy(tree, Int32Array.from(targetArgmax))).toEqual({ path, nextToken });
  });

  it('accepts nothing of an empty draft', () => {
    expect(verifyGreedy(chainTree(1, []), Int32Array.of(6))).toEqual({ path: [], nextToken: 6 });
  });
});

describe('every rule', () => {
  it('gives a path of the tree that starts at the root, and a token that may follow it', () => {
    fc.assert(
      fc.property(
        treeArbitrary,
        fc.array(distributionArbitrary, { minLength: 30, maxLength: 30 }),
        (tree, distributions) => {
          const random = createRandom('path');
          const originals = distributions.map((distribution) => distribution.slice());
          const results = [
            verifyRejection(
              tree,
              hostChances(tree, (node) => distributions[node]!),
              random,
            ),
            verifyTypical(tree, (node) => distributions[node]!),
            verifyGreedy(tree, Int32Array.from(distributions, argmax)),
          ];
          for (const { path, nextToken } of results) {
            let node = 0;
            for (const next of path) {
              expect(childrenOf(tree, node)).toContain(next);
              expect(distributions[node]![tree.tokens[next]!]).toBeGreaterThan(0);
              node = next;
            }
            expect(distributions[node]![nextToken]).toBeGreaterThan(0);
          }
          expect(distributions).toEqual(originals);
        },
      ),
      { numRuns: 300 },
    );
  });

  it('is the greedy rule where the target is certain', () => {
    const certain = fc.array(fc.nat({ max: VOCABULARY - 1 }), { minLength: 30, maxLength: 30 });
    fc.assert(
      fc.property(treeArbitrary, certain, (tree, tokens) => {
        const expected = verifyGreedy(tree, Int32Array.from(tokens));
        const targetDistribution = (node: number) => oneHot(tokens[node]!);
        const chances = hostChances(tree, targetDistribution);
        expect(verifyRejection(tree, chances, createRandom('certain'))).toEqual(expected);
        expect(verifyTypical(tree, targetDistribution)).toEqual(expected);
      }),
      { numRuns: 300 },
    );
  });

  it('says which rules are lossless', () => {
    const lossless = Object.entries(verificationRules).filter(([, rule]) => rule.lossless);
    expect(lossless.map(([name]) => name)).toEqual(['greedy', 'rejection', 'block']);
  });
});

describe('edges of the numbers', () => {
  it('accepts every token when the draft distribution is the target distribution', () => {
    const distribution = Float32Array.of(0.2, 0.3, 0.5);
    for (let seed = 0; seed < 200; seed++) {
      const tree = chainTree(0, [seed % 3, (seed + 1) % 3], [distribution, distribution]);
      expect(
        verifyRejection(
          tree,
          hostChances(tree, () => distribution),
          createRandom(seed),
        ).path,
      ).toEqual([1, 2]);
    }
  });

  it('draws from the residual after a rejection', () => {
    const tree = chainTree(0, [0], [Float32Array.of(0.8, 0.2)]);
    const chances = hostChances(tree, () => Float32Array.of(0.2, 0.8)); // the residual holds token 1 only
    for (let seed = 0; seed < 100; seed++) {
      const { path, nextToken } = verifyRejection(tree, chances, createRandom(seed));
      if (path.length === 0) expect(nextToken).toBe(1);
    }
  });

  it('falls back to the target distribution where a rejection leaves no residual', () => {
    // The draft distribution claims less than the whole distribution does, so a draw close to 1 rejects and max(0, p - q) is empty.
    const target = Float32Array.of(0.25, 0.75);
    const draft = Float32Array.of(0.2500001, 0.7500001);
    const nearlyOne = { ...createRandom(0), next: () => 1 - 2 ** -53 };
    const tree = chainTree(0, [0], [draft]);
    const { path, nextToken } = verifyRejection(
      tree,
      hostChances(tree, () => target),
      nearlyOne,
    );
    expect({ path, nextToken }).toEqual({ path: [], nextToken: 1 });
  });

  it('never emits a struck token, even when the siblings hold all the mass', () => {
    const target = Float32Array.of(0.5, 0.5, 0);
    const tree = createTree({
      tokens: Int32Array.of(2, 0, 2, 1),
      parents: Int32Array.of(-1, 0, 0, 0),
    });
    for (let seed = 0; seed < 200; seed++) {
      expect([1, 3]).toContain(
        verifyRejection(
          tree,
          hostChances(tree, () => target),
          createRandom(seed),
        ).path[0],
      );
    }
  });

  it('keeps the second sibling honest when the first had nearly all of the draft distribution', () => {
    // After token 0 the draft is certain of token 1, and the residual target is half 1, half 2.
    const draft = Float32Array.of(1 - 2 ** -22, 2 ** -23, 0);
    const target = Float32Array.of(0, 0.5, 0.5);
    const tree = createTree({
      tokens: Int32Array.of(0, 0, 1),
      parents: Int32Array.of(-1, 0, 0),
      laws: [draft],
    });
    const random = createRandom('tiny');
    let accepted = 0;
    for (let draw = 0; draw < 10_000; draw++)
      accepted += verifyRejection(
        tree,
        hostChances(tree, () => target),
        random,
      ).path.length;
    expect(accepted / 10_000).toBeCloseTo(0.5, 1);
    expect(Math.abs(accepted - 5000)).toBeLessThan(250);
  });
});

describe('verifyTypical', () => {
  // Entropy of the flat distribution over 4 is log 4, so delta exp(-H) = 0.075; of a certain distribution 0, so epsilon decides.
  it('keeps a token above min(epsilon, delta exp(-H)), and no other', () => {
    const flat = Float32Array.of(0.25, 0.25, 0.25, 0.25);
    expect(verifyTypical(chainTree(0, [3]), () => flat).path).toEqual([1]);
    const sharp = Float32Array.of(0.9, 0.095, 0.005, 0);
    expect(verifyTypical(chainTree(0, [1]), () => sharp).path).toEqual([1]);
    expect(verifyTypical(chainTree(0, [2]), () => sharp).path).toEqual([]);
    expect(verifyTypical(chainTree(0, [2]), () => sharp).nextToken).toBe(0);
  });

  it('takes the longest path, then the likeliest', () => {
    const tree = createTree({
      tokens: Int32Array.of(0, 0, 1, 1, 0),
      parents: Int32Array.of(-1, 0, 0, 1, 2),
    });
    // Root: 0.6 / 0.4; after token 0: 0.5 / 0.5; after token 1: 0.9 / 0.1. Paths 0,1: 0.30 and 1,0: 0.36.
    const distributions = [Float32Array.of(0.6, 0.4), Float32Array.of(0.5, 0.5), Float32Array.of(0.9, 0.1)];
    expect(verifyTypical(tree, (node) => distributions[node] ?? distributions[0]!)).toEqual({
      path: [2, 4],
      nextToken: 0,
    });
  });
});
