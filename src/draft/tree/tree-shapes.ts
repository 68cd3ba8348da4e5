/**
 * A tree shape lists rank paths: [2, 0] is the third best token followed by the best one. For drawn siblings, ranks
 * are the drawing order.
 */
import * as z from '../../core/schema.js';
import { describeCause, MistletoeError } from '../../core/errors.js';
import { parseJsonText } from '../../core/json-text.js';
import { deepestDraft, maxDraftNodes } from '../../core/limits.js';

/**
 * Published static trees, one digit per rank and one line per depth: `021` is the best token, then the third best,
 * then the second best. Medusa's trees (arXiv 2401.10774, medusa_choices.py) have 63 nodes; mc_sim_7b_63 is the
 * general one. EAGLE's tree of 25 nodes (arXiv 2401.15077, choices.py) has the same name there and another one here.
 */
export const staticTrees = {
  mc_sim_7b_63: [
    '0 1 2 3 4 5 6 7 8 9',
    '00 01 02 03 04 05 06 07 08 09 10 11 12 13 14 15 16 20 21 22 30 31 40 50 60 70 80 90',
    '000 001 002 003 004 005 006 007 008 009 010 011 012 020 021 030 040 050 060 070 100 101 200',
    '0000 0001',
  ],
  vicuna_7b_stage2: [
    '0 1 2 3 4 5 6 7 8 9',
    '00 01 02 03 04 05 06 07 08 09 10 11 12 13 14 20 21 30 31 40 50 60 70',
    '000 001 002 003 004 005 006 007 008 010 011 012 013 020 021 030 040 050 100 101 102 110 200',
    '0000 0001 0002 0003 0010 0020 0100',
  ],
  vicuna_13b_stage2: [
    '0 1 2 3 4 5 6 7 8 9',
    '00 01 02 03 04 05 06 07 08 09 10 11 12 13 20 21 30 40 50',
    '000 001 002 003 004 005 006 007 008 009 010 011 012 013 020 021 030 040 050 100 101 102 110 200 300',
    '0000 0001 0002 0003 0010 0011 0020 0100 1000',
  ],
  eagle_25: [
    '0 1 2 3',
    '00 01 02 10 11 20 21 30',
    '000 001 002 010 011 020 021 100',
    '0000 0001 0002',
    '00000 00001',
  ],
} as const satisfies Record<string, readonly string[]>;

export type StaticTreeName = keyof typeof staticTrees;

/** Nodes sorted by depth, then by path; node 0 is the root. */
export interface TreeShape {
  readonly name: string;
  readonly parents: Int32Array; // [node] parents[0] = -1, parents[node] < node
  readonly ranks: Int32Array; // [node] ranks[0] = -1
  readonly depths: Int32Array; // [node] depths[0] = 0
}

export interface ShapeLimits {
  readonly maximumDepth?: number | undefined;
  readonly vocabularySize?: number | undefined;
}

type RankPath = readonly number[];

export function isStaticTreeName(name: string): name is StaticTreeName {
  return Object.hasOwn(staticTrees, name);
}

export function namedShape(name: StaticTreeName, limits: ShapeLimits = {}): TreeShape {
  const paths = staticTrees[name].flatMap((line) =>
    line.split(' ').map((digits) => Array.from(digits, (digit) => Number(digit))),
  );
  return shapeFromPaths(name, paths, limits);
}

const rankPaths = z.array(z.array(z.int().nonnegative()).min(1)).min(1);

export function parseTreeShape(name: string, text: string, limits: ShapeLimits = {}): TreeShape {
  let content: unknown;
  try {
    content = parseJsonText(text);
  } catch (cause) {
    throw badShape(name, `is not JSON: ${describeCause(cause)}`, cause);
  }
  const parsed = rankPaths.safeParse(content);
  if (!parsed.success) {
    const issue = parsed.error.issues[0]!;
    const place = issue.path.length === 0 ? 'its top level' : `[${issue.path.map(String).join('][')}]`;
    throw badShape(name, `is not an array of rank paths; at ${place}: ${issue.message}`);
  }
  return shapeFromPaths(name, parsed.data, limits);
}

export function shapeFromPaths(
  name: string,
  paths: readonly RankPath[],
  limits: ShapeLimits = {},
): TreeShape {
  // Larger ranks would wrap around in an Int32Array.
  const { maximumDepth = Infinity, vocabularySize = 2 ** 31 } = limits;
  if (paths.length === 0) throw badShape(name, 'has no paths');
  if (paths.length >= maxDraftNodes)
    throw badShape(name, `has ${paths.length} paths; at most ${maxDraftNodes - 1} are drafted`);
  const longest = paths.reduce((length, path) => Math.max(length, path.length), 0);
  if (longest > deepestDraft)
    throw badShape(name, `is ${longest} deep; at most ${deepestDraft} levels are drafted`);
  const sorted = [...paths].sort(comparePaths);
  const parents = new Int32Array(sorted.length + 1).fill(-1);
  const ranks = new Int32Array(sorted.length + 1).fill(-1);
  const depths = new Int32Array(sorted.length + 1);
  const nodes = new Map([['', 0]]);
  for (const [index, path] of sorted.entries()) {
    const rank = path.at(-1);
    if (rank === undefined) throw badShape(name, 'lists the empty path, which is the root and always there');
    if (!Number.isInteger(rank) || rank < 0 || rank >= vocabularySize) {
      throw badShape(
        name,
        `has the rank ${rank} in ${show(path)}; a whole number from 0 and below the vocabulary size ${vocabularySize} was expected`,
      );
    }
    if (path.length > maximumDepth) {
      throw badShape(
        name,
        `is ${path.length} deep at ${show(path)}; this drafter reaches depth ${maximumDepth}`,
      );
    }
    const parent = nodes.get(path.slice(0, -1).join());
    if (parent === undefined) {
      throw badShape(name, `has ${show(path)} without its parent ${show(path.slice(0, -1))}`);
    }
    if (nodes.has(path.join())) throw badShape(name, `lists ${show(path)} twice`);
    const node = index + 1;
    nodes.set(path.join(), node);
    parents[node] = parent;
    ranks[node] = rank;
    depths[node] = path.length;
  }
  return { name, parents, ranks, depths };
}

function comparePaths(left: RankPath, right: RankPath): number {
  if (left.length !== right.length) return left.length - right.length;
  const different = left.findIndex((rank, depth) => rank !== right[depth]);
  return different < 0 ? 0 : left[different]! - right[different]!;
}

function show(path: RankPath): string {
  return `[${path.join(', ')}]`;
}

function badShape(name: string, fault: string, cause?: unknown): MistletoeError {
  return new MistletoeError('usage', `The tree "${name}" ${fault}.`, {
    hint: 'A tree is a JSON array of rank paths with every parent listed, for example [[0], [1], [0, 0]].',
    cause,
  });
}
