import { describe, expect, it } from 'vitest';
import { createRandom, drawFrom } from '../../core/random.js';
import { chainTree, createTree } from '../../draft/tree/token-tree.js';
import { followDrawn, followTokens } from './verifier.js';
import { hostChances } from './node-chances.js';
import { acceptanceProbability } from '../../../test/support/decode/acceptance-probability.js';
import { verifyRejection } from './verification.js';

describe('following given tokens', () => {
  it('accepts a chain up to the first token that is another', () => {
    const tree = chainTree(9, [4, 5, 6]);
    expect(followTokens(tree, [4, 5, 6, 7])).toEqual([1, 2, 3]);
    expect(followTokens(tree, [4, 5])).toEqual([1, 2]);
    expect(followTokens(tree, [4, 6])).toEqual([1]);
    expect(followTokens(tree, [5])).toEqual([]);
    expect(followTokens(tree, [])).toEqual([]);
  });

  it('finds the path among siblings', () => {
    const tree = createTree({
      tokens: Int32Array.of(9, 1, 2, 3, 4, 3),
      parents: Int32Array.of(-1, 0, 0, 1, 2, 2),
    });
    expect(followTokens(tree, [2, 3])).toEqual([2, 5]);
    expect(followTokens(tree, [1, 3])).toEqual([1, 3]);
    expect(followTokens(tree, [3, 3])).toEqual([]);
  });
});

describe('following an answer that was drawn', () => {
  const target = Float32Array.of(0.5, 0.3, 0.2);
  const draft = Float32Array.of(0.2, 0.2, 0.6);
  const along = (token: number) =>
    createTree({
      tokens: Int32Array.of(9, token),
      parents: Int32Array.of(-1, 0),
      laws: [draft],
    });

  it('accepts as often as speculative sampling accepts the token, given that it comes out', () => {
    const random = createRandom(3, 'along');
    const draws = 40_000;
    for (const token of [0, 1, 2]) {
      let came = 0;
      let through = 0;
      for (let draw = 0; draw < draws; draw++) {
        const tree = along(drawFrom(draft, random));
        const { path, nextToken } = verifyRejection(
          tree,
          hostChances(tree, () => target),
          random,
        );
        const emitted = path.length > 0 ? tree.tokens[1]! : nextToken;
        if (emitted !== token) continue;
        came += 1;
        if (path.length > 0) through += 1;
      }
      let accepted = 0;
      for (let draw = 0; draw < draws; draw++)
        accepted += followDrawn(along(token), [token], () => target, random).length;
      expect(Math.abs(accepted / draws - through / came)).toBeLessThan(0.015);
    }
  });

  it('over answers drawn from the target it is the acceptance rate', () => {
    const random = createRandom(4, 'mean');
    const draws = 40_000;
    let accepted = 0;
    for (let draw = 0; draw < draws; draw++) {
      const token = drawFrom(target, random);
      accepted += followDrawn(along(token), [token], () => target, random).length;
    }
    expect(Math.abs(accepted / draws - acceptanceProbability(target, draft))).toBeLessThan(0.01);
  });
});
