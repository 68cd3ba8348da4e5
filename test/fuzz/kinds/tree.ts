/** Draft trees from files. What is accepted is a tree: parents before children, one level apart, no place twice. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Random } from '../../../src/core/random.js';
import { createRandom } from '../../../src/core/random.js';
import { loadTreeShape, parseDraftPolicy } from '../../../src/draft/tree/policy.js';
import { mutateBytes, pick } from '../byte-mutations.js';
import { mutateJson } from '../json-mutations.js';
import type { FuzzKind } from '../kind.js';
import { ensure } from '../kind.js';

const small = [[0], [1], [2], [0, 0], [0, 1], [1, 0], [0, 0, 0]];

function makeTree(random: Random): string | Buffer {
  switch (random.nextInteger(6)) {
    case 0:
      return mutateBytes(Buffer.from(JSON.stringify(small)), random);
    case 1: // one long chain
      return JSON.stringify(
        Array.from({ length: 1 + random.nextInteger(600) }, (_, depth) =>
          new Array<number>(depth + 1).fill(0),
        ),
      );
    case 2: // one wide level
      return JSON.stringify(Array.from({ length: 1 + random.nextInteger(60_000) }, (_, rank) => [rank]));
    default:
      return mutateJson(small, random);
  }
}

export const tree: FuzzKind = {
  name: 'tree',
  boundedRuns: 250,
  open(folder) {
    const path = join(folder, 'tree.json');
    return (seed) => {
      const random = createRandom(seed, 'tree');
      writeFileSync(path, makeTree(random));
      const limits = pick(random, [{}, { maximumDepth: 4, vocabularySize: 24 }]);
      const policy = parseDraftPolicy(`tree:${path}`);
      ensure(policy.kind === 'tree', 'no tree');
      const { parents, ranks, depths } = loadTreeShape(policy.source, limits);
      const seen = new Set<string>();
      for (let node = 1; node < parents.length; node++) {
        const parent = parents[node]!;
        ensure(parent >= 0 && parent < node, `node ${node} has the parent ${parent}`);
        ensure(depths[node] === depths[parent]! + 1, `node ${node} is ${depths[node] ?? ''} deep`);
        ensure(ranks[node]! >= 0, `node ${node} has the rank ${ranks[node] ?? ''}`);
        seen.add(`${parent}/${ranks[node] ?? ''}`);
      }
      ensure(seen.size === parents.length - 1, 'two nodes share a place');
    };
  },
};
