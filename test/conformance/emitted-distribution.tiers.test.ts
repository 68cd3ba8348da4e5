/**
 * The statistics behind the word lossless. A toy target and a toy drafter are Markov chains over eight tokens; drafting
 * and verifying in a loop, as decoding does, must emit text with the target's distribution whatever the drafter proposes.
 * More draws find smaller errors: the full tier draws ten times as often.
 */
import { describe, expect, it } from 'vitest';
import { byTier } from '../support/tier.js';
import { chiSquareExcess } from '../chi-square.js';
import type { Random } from '../../src/core/random.js';
import { createRandom, drawFrom, drawWithoutReplacement } from '../../src/core/random.js';
import { topIndices } from '../../src/core/vector.js';
import type { HostLaws, TokenTree } from '../../src/draft/tree/token-tree.js';
import { chainTree, createTree, joinTrees } from '../../src/draft/tree/token-tree.js';
import type { TreeShape } from '../../src/draft/tree/tree-shapes.js';
import { namedShape, shapeFromPaths } from '../../src/draft/tree/tree-shapes.js';
import type { TargetDistribution } from '../../src/decode/verification/node-chances.js';
import { hostChances } from '../../src/decode/verification/node-chances.js';
import type { Verification } from '../../src/decode/verification/verification.js';
import { createVerifier } from '../../src/decode/verification/verifier.js';
import { verifyBlock, verifyRejection, verifyTypical } from '../../src/decode/verification/verification.js';

const VOCABULARY = 8;
const START = 0;

type MarkovDistributions = readonly Float32Array[]; // [last token] -> [vocabulary]
type HostTree = TokenTree<HostLaws>;
type Drafter = (root: number, random: Random) => HostTree;
type Rule = (
  tree: HostTree,
  targetDistribution: TargetDistribution,
  random: Random,
) => Verification | Promise<Verification>;

const onHost =
  (rule: typeof verifyRejection): typeof verifyBlock =>
  (tree, targetDistribution, random) =>
    rule(tree, hostChances(tree, targetDistribution), random);

/** As decoding does, which has logits. */
const asBlock: Rule = (tree, targetDistribution, random) => {
  const rows = Array.from(tree.tokens, (_, node) => Array.from(targetDistribution(node), Math.log));
  const verifier = createVerifier('block', { sampling: { temperature: 1 } }, random);
  return verifier.judge(tree, { logits: Float32Array.from(rows.flat()) }, 1);
};

/** Distributions of uneven weights, with a few impossible tokens. */
function randomDistributions(name: string): MarkovDistributions {
  const random = createRandom('distributions', name);
  return Array.from({ length: VOCABULARY }, () => {
    const weights = Array.from({ length: VOCABULARY }, () => (random.next() < 0.1 ? 0 : random.next() ** 2));
    const total = weights.reduce((left, right) => left + right, 0);
    return Float32Array.from(weights, (weight) => weight / total);
  });
}

const target = randomDistributions('target');
const draft = randomDistributions('draft');
/** Most of the way to the target, so that long paths are accepted and long paths are tested. */
const closeDraft = draft.map((distribution, token) =>
  distribution.map((value, next) => 0.3 * value + 0.7 * target[token]![next]!),
);
/** Drafters that are often sure of the same token, so that merging matters. */
const sureDraft = draft.map((distribution, token) =>
  distribution.map((value, next) => 0.3 * value + (next === (token + 1) % VOCABULARY ? 0.7 : 0)),
);

function draftTree(
  shape: TreeShape,
  distributions: MarkovDistributions,
  origin: 'sampled' | 'deterministic',
): Drafter {
  return (root, random) => {
    const tokens = [root];
    const parents = [-1];
    const placed = new Map([[0, 0]]); // shape node -> tree node; ranks the distribution cannot fill are left out
    const choices = new Map<number, ArrayLike<number>>();
    for (let node = 1; node < shape.parents.length; node++) {
      const parent = placed.get(shape.parents[node]!);
      if (parent === undefined) continue;
      const distribution = distributions[tokens[parent]!]!;
      const siblings =
        choices.get(parent) ??
        (origin === 'sampled'
          ? drawWithoutReplacement(distribution, 4, random)
          : topIndices(distribution, VOCABULARY));
      choices.set(parent, siblings);
      const token = siblings[shape.ranks[node]!];
      if (token === undefined) continue;
      placed.set(node, tokens.length);
      tokens.push(token);
      parents.push(parent);
    }
    return createTree({
      tokens: Int32Array.from(tokens),
      parents: Int32Array.from(parents),
      laws: origin === 'sampled' ? tokens.map((token) => distributions[token]) : undefined,
    });
  };
}

function draftChain(length: number, distributions: MarkovDistributions): Drafter {
  return (root, random) => {
    const tokens: number[] = [];
    const chainDistributions: Float32Array[] = [];
    for (let last = root; tokens.length < length; last = tokens.at(-1)!) {
      chainDistributions.push(distributions[last]!);
      tokens.push(drawFrom(distributions[last]!, random));
    }
    return chainTree(root, tokens, chainDistributions);
  };
}

/** Drafters that propose into one tree, in this order. */
function join(...drafters: readonly Drafter[]): Drafter {
  return (root, random) => joinTrees(drafters.map((drafter) => drafter(root, random))) as HostTree;
}

/** The wrong merge: a node that two drafters proposed is tried once. */
function tryOnce(drafter: Drafter): Drafter {
  return (root, random) => {
    const tree = drafter(root, random);
    const trials = tree.trials.map((own) =>
      own.filter(({ node }, place) => own.findIndex((other) => other.node === node) === place),
    );
    return { ...tree, trials };
  };
}

/** How far the first token, and the first two together, are from the target's distribution. */
async function measureExcess(
  drafter: Drafter,
  rule: Rule,
  { seed, answers }: { seed: string; answers: number },
): Promise<{ first: number; joint: number }> {
  const random = createRandom(seed);
  const first = new Int32Array(VOCABULARY);
  const joint = new Int32Array(VOCABULARY * VOCABULARY);
  for (let answer = 0; answer < answers; answer++) {
    const emitted = [START];
    while (emitted.length < 3) {
      const tree = drafter(emitted.at(-1)!, random);
      const { path, nextToken } = await rule(tree, (node) => target[tree.tokens[node]!]!, random);
      for (const node of path) emitted.push(tree.tokens[node]!);
      emitted.push(nextToken);
    }
    first[emitted[1]!]!++;
    joint[emitted[1]! * VOCABULARY + emitted[2]!]!++;
  }
  const firstDistribution = Array.from(target[START]!);
  const jointDistribution = firstDistribution.flatMap((probability, token) =>
    Array.from(target[token]!, (next) => probability * next),
  );
  return {
    first: chiSquareExcess(first, firstDistribution),
    joint: chiSquareExcess(joint, jointDistribution),
  };
}

const bushy = shapeFromPaths('bushy', [
  [0],
  [1],
  [2],
  [0, 0],
  [0, 1],
  [0, 2],
  [1, 0],
  [1, 1],
  [0, 0, 0],
  [0, 0, 1],
]);
const siblings = shapeFromPaths('siblings', [[0], [1], [2], [3]]);
const bestChain = draftTree(shapeFromPaths('best', [[0], [0, 0], [0, 0, 0]]), draft, 'deterministic');
const bestToken = draftTree(shapeFromPaths('best token', [[0]]), draft, 'deterministic');
const joinedDrafters: readonly [string, Drafter][] = [
  ['a certain token and a drawn one', join(bestToken, draftChain(1, draft))],
  ['a certain chain and a drawn one', join(bestChain, draftChain(3, closeDraft))],
  ['two drawn tokens', join(draftChain(1, sureDraft), draftChain(1, sureDraft))],
  ['three drawn chains', join(draftChain(3, sureDraft), draftChain(3, sureDraft), draftChain(3, closeDraft))],
  [
    'a certain chain, a drawn tree, and a drawn chain',
    join(bestChain, draftTree(bushy, draft, 'sampled'), draftChain(3, closeDraft)),
  ],
];

// (1 - rate^(length + 1)) / (1 - rate), Leviathan et al., arXiv 2211.17192, equation 1.
const expectedLengths: Record<number, readonly number[]> = {
  0.5: [1.5, 1.875, 1.9375, 1.9688, 1.9922, 1.999],
  0.6: [1.6, 2.176, 2.3056, 2.3834, 2.458, 2.4909],
  0.7: [1.7, 2.533, 2.7731, 2.9412, 3.1412, 3.2674],
  0.8: [1.8, 2.952, 3.3616, 3.6893, 4.1611, 4.5705],
  0.9: [1.9, 3.439, 4.0951, 4.6856, 5.6953, 6.8619],
};
const chainLengths = [1, 3, 4, 5, 7, 10];

const answers = byTier({ quick: 12_000, full: 60_000 });
const wrong = answers / 12_000; // the excess of a wrong distribution grows with the draws

describe('the distribution of what is emitted', () => {
  it.each<[string, Drafter]>([
    ['a drawn chain of 1', draftChain(1, draft)],
    ['a drawn chain of 2', draftChain(2, draft)],
    ['a drawn chain of 3, close to the target', draftChain(3, closeDraft)],
    ['a drawn chain of 4, close to the target', draftChain(4, closeDraft)],
    ['four drawn siblings', draftTree(siblings, draft, 'sampled')],
    ['a drawn tree', draftTree(bushy, draft, 'sampled')],
    ['a drawn tree, close to the target', draftTree(bushy, closeDraft, 'sampled')],
    ['a drawn tree of the shape of EAGLE', draftTree(namedShape('eagle_25'), closeDraft, 'sampled')],
    ['the best chain of 3', bestChain],
    ['the four best siblings', draftTree(siblings, draft, 'deterministic')],
    ['a tree of the best', draftTree(bushy, draft, 'deterministic')],
    ['a tree of the best, close to the target', draftTree(bushy, closeDraft, 'deterministic')],
    ...joinedDrafters,
  ])('is the target distribution after %s', async (name, drafter) => {
    const excess = await measureExcess(drafter, onHost(verifyRejection), { seed: name, answers });
    expect(excess.first).toBeLessThan(1);
    expect(excess.joint).toBeLessThan(1);
  });

  it.each<[string, Drafter]>([
    ['a chain of 1', draftChain(1, draft)],
    ['a chain of 2', draftChain(2, draft)],
    ['a chain of 4, close to the target', draftChain(4, closeDraft)],
    ['a chain of 3 that equals the target', draftChain(3, target)],
  ])('is the target distribution after %s judged as a block', async (name, drafter) => {
    const excess = await measureExcess(drafter, verifyBlock, { seed: name, answers });
    expect(excess.first).toBeLessThan(1);
    expect(excess.joint).toBeLessThan(1);
  });

  it.each(joinedDrafters)(
    'is another distribution when equal tokens of %s are tried once',
    async (name, drafter) => {
      const excess = await measureExcess(tryOnce(drafter), onHost(verifyRejection), { seed: name, answers });
      expect(excess.joint).toBeGreaterThan(wrong);
    },
  );

  it.each(joinedDrafters)(
    'is the target distribution after %s by the verifier of blocks',
    async (name, drafter) => {
      const excess = await measureExcess(drafter, asBlock, { seed: name, answers });
      expect(excess.joint).toBeLessThan(1);
    },
  );

  it('is another distribution under typical acceptance, which is why that is marked lossy', async () => {
    const excess = await measureExcess(
      draftTree(bushy, draft, 'sampled'),
      (tree, distribution) => verifyTypical(tree, distribution),
      { seed: 'typical', answers },
    );
    expect(excess.first).toBeGreaterThan(wrong);
    expect(excess.joint).toBeGreaterThan(wrong);
  });

  it('is another distribution when the tree lies about what its tokens were drawn from', async () => {
    const honest = draftTree(siblings, draft, 'sampled');
    const lying: Drafter = (root, random) => {
      const tree = honest(root, random);
      const laws = [Float32Array.from({ length: VOCABULARY }, () => 1 / VOCABULARY)];
      return { ...tree, laws };
    };
    const excess = await measureExcess(lying, onHost(verifyRejection), { seed: 'lying', answers });
    expect(excess.first).toBeGreaterThan(wrong);
  });
});

describe('the mean accepted length at a given acceptance rate', () => {
  it.each(Object.keys(expectedLengths).map(Number))('%d', (rate) => {
    // Two distributions that share exactly the rate and differ in the rest.
    const shared = rate / 2;
    const draftDistribution = Float32Array.of(shared, shared, (1 - rate) / 2, (1 - rate) / 2, 0, 0);
    const targetDistribution = Float32Array.of(shared, shared, 0, 0, (1 - rate) / 2, (1 - rate) / 2);
    const random = createRandom('accepted-length', String(rate));
    chainLengths.forEach((length, column) => {
      const steps = answers / 6;
      let total = 0;
      let squares = 0;
      for (let step = 0; step < steps; step++) {
        const tokens = Array.from({ length }, () => drawFrom(draftDistribution, random));
        const tree = chainTree(
          0,
          tokens,
          Array.from(tokens, () => draftDistribution),
        );
        const emitted =
          verifyRejection(
            tree,
            hostChances(tree, () => targetDistribution),
            random,
          ).path.length + 1;
        total += emitted;
        squares += emitted * emitted;
      }
      const mean = total / steps;
      const standardError = Math.sqrt((squares / steps - mean * mean) / steps);
      expect(Math.abs(mean - expectedLengths[rate]![column]!)).toBeLessThan(4 * standardError);
    });
  });
});

describe('judging a chain as one block', () => {
  it('keeps 11/9 draft tokens where rejection keeps 10/9, and nothing more of certain drafts', () => {
    const targetDistribution = Float32Array.of(1 / 3, 2 / 3);
    const draftDistribution = Float32Array.of(2 / 3, 1 / 3);
    const countKept = (rule: typeof verifyBlock, q: Float32Array): { mean: number; error: number } => {
      const random = createRandom('block');
      const steps = answers / 2;
      let [total, squares] = [0, 0];
      for (let step = 0; step < steps; step++) {
        const tree = chainTree(0, [drawFrom(q, random), drawFrom(q, random)], [q, q]);
        const { path } = rule(tree, () => targetDistribution, random);
        const kept = path.length;
        total += kept;
        squares += kept * kept;
      }
      const mean = total / steps;
      return { mean, error: Math.sqrt((squares / steps - mean * mean) / steps) };
    };
    const block = countKept(verifyBlock, draftDistribution);
    expect(Math.abs(block.mean - 11 / 9)).toBeLessThan(4 * block.error);
    const rejection = countKept(onHost(verifyRejection), draftDistribution);
    expect(Math.abs(rejection.mean - 10 / 9)).toBeLessThan(4 * rejection.error);
    expect(block.mean - rejection.mean).toBeGreaterThan(3 * (block.error + rejection.error));
    const certain = Float32Array.of(1, 0);
    const [likely, usual] = [countKept(verifyBlock, certain), countKept(onHost(verifyRejection), certain)];
    expect(Math.abs(likely.mean - usual.mean)).toBeLessThan(4 * (likely.error + usual.error));
  });
});
