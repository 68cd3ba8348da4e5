import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { childrenOf, leafPaths } from '../../../test/support/token-trees.js';
import { chainTree, createTree, isDrawn, joinTrees, pathTo } from './token-tree.js';

//        0
//      /   \
//     1     2
//    / \     \
//   3   4     5
const parents = Int32Array.of(-1, 0, 0, 1, 1, 2);
const tree = createTree({ tokens: Int32Array.of(7, 1, 2, 1, 2, 1), parents });

/** Parent arrays of random trees, with node indexes as tokens so that siblings differ. */
const randomParents = fc
  .array(fc.nat(), { maxLength: 40 })
  .map((choices) => Int32Array.from([-1, ...choices.map((choice, index) => choice % (index + 1))]));

describe('createTree', () => {
  it('derives depths', () => {
    expect([...tree.depths]).toEqual([0, 1, 1, 2, 2, 2]);
  });
});

describe('chainTree', () => {
  it('is a tree with one child each', () => {
    const chain = chainTree(9, [4, 5, 6]);
    expect([...chain.tokens]).toEqual([9, 4, 5, 6]);
    expect([...chain.parents]).toEqual([-1, 0, 1, 2]);
    expect([...chain.depths]).toEqual([0, 1, 2, 3]);
    expect(isDrawn(chain)).toBe(false);
    expect(chainTree(9, []).tokens).toHaveLength(1);
  });

  it('is sampled when it has distributions', () => {
    const distributions = [Float32Array.of(0.5, 0.5), Float32Array.of(0.1, 0.9)];
    const chain = chainTree(0, [0, 1], distributions);
    expect(isDrawn(chain)).toBe(true);
    expect(chain.laws).toEqual(distributions);
  });
});

describe('walking', () => {
  it('finds children, paths and leaves', () => {
    expect(childrenOf(tree, 0)).toEqual([1, 2]);
    expect(childrenOf(tree, 1)).toEqual([3, 4]);
    expect(childrenOf(tree, 5)).toEqual([]);
    expect(pathTo(tree, 0)).toEqual([]);
    expect(pathTo(tree, 4)).toEqual([1, 4]);
    expect(leafPaths(tree)).toEqual([
      [1, 3],
      [1, 4],
      [2, 5],
    ]);
    expect(leafPaths(chainTree(1, []))).toEqual([[]]);
  });

  it('agrees on any tree: depth and path have the same ancestors', () => {
    fc.assert(
      fc.property(randomParents, (someParents) => {
        const tokens = someParents.map((_, node) => node);
        const some = createTree({ tokens, parents: someParents });
        for (const node of tokens) {
          const ancestors = [0, ...pathTo(some, node)];
          expect(ancestors.slice(0, -1)).toEqual(ancestors.slice(1).map((each) => someParents[each]));
          expect(ancestors.length).toBe(some.depths[node]! + 1);
        }
        const leaves = leafPaths(some).map((path) => path.at(-1) ?? 0);
        expect(leaves).toEqual([...tokens].filter((node) => childrenOf(some, node).length === 0));
      }),
    );
  });
});

describe('joinTrees', () => {
  const law = Float32Array.of(0.5, 0.25, 0.25);

  it('shares nodes of equal paths, and tries each proposal with its own law', () => {
    const certain = chainTree(9, [1, 2]);
    const drawn = chainTree(9, [1, 0], [law, law]);
    const joined = joinTrees([certain, drawn]);
    expect([...joined.tokens]).toEqual([9, 1, 2, 0]);
    expect([...joined.parents]).toEqual([-1, 0, 1, 1]);
    expect([...joined.depths]).toEqual([0, 1, 2, 2]);
    expect(joined.trials).toEqual([
      [
        { node: 1, law: undefined },
        { node: 1, law: 0 },
      ],
      [
        { node: 2, law: undefined },
        { node: 3, law: 1 },
      ],
      [],
      [],
    ]);
  });

  it('keeps the laws of several drawn trees apart', () => {
    const other = Float32Array.of(0, 0, 1);
    const joined = joinTrees([chainTree(9, [0], [law]), chainTree(9, [2], [other])]);
    expect(joined.laws).toEqual([law, other]);
    expect(joined.trials[0]).toEqual([
      { node: 1, law: 0 },
      { node: 2, law: 1 },
    ]);
  });

  it('is the only tree that proposes something', () => {
    const tree = chainTree(9, [1]);
    expect(joinTrees([chainTree(9, []), tree])).toBe(tree);
    expect([...joinTrees([chainTree(9, []), chainTree(9, [])]).tokens]).toEqual([9]);
  });
});
