import { describe, expect, it } from 'vitest';
import { MistletoeError } from '../../core/errors.js';
import { leafPaths } from '../../../test/support/token-trees.js';
import { namedShape, parseTreeShape, shapeFromPaths } from './tree-shapes.js';

function nodesPerDepth(depths: Int32Array): number[] {
  const counts: number[] = [];
  for (const depth of depths.slice(1)) counts[depth - 1] = (counts[depth - 1] ?? 0) + 1;
  return counts;
}

describe('namedShape', () => {
  it.each([
    ['mc_sim_7b_63', [10, 28, 23, 2], 42],
    ['vicuna_7b_stage2', [10, 23, 23, 7], 42],
    ['vicuna_13b_stage2', [10, 19, 25, 9], 42],
    ['eagle_25', [4, 8, 8, 3, 2], 15],
  ] as const)('%s has the published nodes per depth and leaves', (name, counts, leaves) => {
    const shape = namedShape(name);
    expect(nodesPerDepth(shape.depths)).toEqual(counts);
    expect(leafPaths(shape)).toHaveLength(leaves);
    expect(Math.max(...shape.ranks)).toBeLessThan(10);
  });

  it('refuses a shape deeper than the drafter', () => {
    expect(() => namedShape('eagle_25', { maximumDepth: 4 })).toThrow('is 5 deep at [0, 0, 0, 0, 0]');
    expect(namedShape('mc_sim_7b_63', { maximumDepth: 4 }).depths).toHaveLength(64);
  });
});

describe('parseTreeShape', () => {
  it('sorts by depth and path, whatever the order of the file', () => {
    const shape = parseTreeShape('mine', '[[0, 10], [1, 0], [0, 2], [1], [10], [0]]');
    expect(shape.name).toBe('mine');
    expect([...shape.parents]).toEqual([-1, 0, 0, 0, 1, 1, 2]);
    expect([...shape.ranks]).toEqual([-1, 0, 1, 10, 2, 10, 0]);
    expect([...shape.depths]).toEqual([0, 1, 1, 1, 2, 2, 2]);
  });

  it.each([
    ['no JSON', '[[0]', 'is not JSON'],
    ['an object', '{"paths": [[0]]}', 'is not an array of rank paths; at its top level'],
    ['nothing', '[]', 'at its top level'],
    ['the empty path', '[[0], []]', 'at [1]'],
    ['a negative rank', '[[0], [-1]]', 'at [1][0]'],
    ['a fraction', '[[0.5]]', 'at [0][0]'],
    ['text', '[["0"]]', 'at [0][0]'],
    ['a rank past the vocabulary', '[[0], [100]]', 'has the rank 100 in [100]'],
    ['an orphan', '[[0], [1, 0]]', 'has [1, 0] without its parent [1]'],
    ['an orphan below an orphan', '[[0, 0, 0]]', 'has [0, 0, 0] without its parent [0, 0]'],
    ['a duplicate', '[[0], [0, 1], [0]]', 'lists [0] twice'],
    ['too deep a path', '[[0], [0, 0], [0, 0, 0], [0, 0, 0, 0]]', 'is 4 deep at [0, 0, 0, 0]'],
  ])('refuses %s', (_, text, message) => {
    const parse = () => parseTreeShape('mine', text, { maximumDepth: 3, vocabularySize: 100 });
    expect(parse).toThrow(MistletoeError);
    expect(parse).toThrow(message);
  });

  it('checks paths that come from code as well', () => {
    expect(() => shapeFromPaths('mine', [])).toThrow('has no paths');
    expect(() => shapeFromPaths('mine', [[]])).toThrow('lists the empty path');
    expect(() => shapeFromPaths('mine', [[Number.NaN]])).toThrow('has the rank NaN');
    // It would wrap around to 0 in an Int32Array.
    expect(() => shapeFromPaths('mine', [[0], [2 ** 32]])).toThrow('has the rank 4294967296');
  });
});
