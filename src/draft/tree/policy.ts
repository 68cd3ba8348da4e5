/**
 * The draft policy as users write it: `chain:4`, `tree:mc_sim_7b_63`, `tree:my-tree.json`, `dynamic:60,5,10` or
 * `auto`.
 */
import { readBoundedFileSync } from '../../core/files.js';
import { describeCause, MistletoeError } from '../../core/errors.js';
import { deepestDraft, fileLimits, maxDraftNodes, widestDraft } from '../../core/limits.js';
import type { ShapeLimits, StaticTreeName, TreeShape } from './tree-shapes.js';
import { isStaticTreeName, namedShape, parseTreeShape, staticTrees } from './tree-shapes.js';

export type DraftPolicy =
  | { readonly kind: 'chain'; readonly length: number }
  | { readonly kind: 'tree'; readonly source: TreeSource }
  | DynamicPolicy
  | { readonly kind: 'auto' };

export type TreeSource =
  | { readonly kind: 'named'; readonly name: StaticTreeName }
  | { readonly kind: 'file'; readonly path: string };

/** EAGLE-2's tree (arXiv 2406.16858) with its implementation's parameters. */
export interface DynamicPolicy {
  readonly kind: 'dynamic';
  /** Verified nodes, including the root. */
  readonly total: number;
  /** Rounds after the first level: depth + 1 levels. */
  readonly depth: number;
  /** Expanded nodes per round, and children of each. */
  readonly topK: number;
}

export function parseDraftPolicy(text: string): DraftPolicy {
  const separator = text.indexOf(':');
  const kind = separator < 0 ? text : text.slice(0, separator);
  const rest = separator < 0 ? '' : text.slice(separator + 1);
  switch (kind) {
    case 'auto':
      if (separator >= 0) break;
      return { kind };
    case 'chain': {
      const [length, ...more] = parseCounts(rest);
      if (length === undefined || more.length > 0) break;
      if (length > deepestDraft) throw badPolicy(text, `a length from 1 to ${deepestDraft} was expected`);
      return { kind, length };
    }
    case 'tree':
      return { kind, source: parseTreeSource(text, rest) };
    case 'dynamic': {
      const [total, depth, topK, ...more] = parseCounts(rest);
      if (total === undefined || depth === undefined || topK === undefined || more.length > 0) break;
      return checkDynamic(text, { kind, total, depth, topK });
    }
  }
  throw badPolicy(
    text,
    'auto, chain:LENGTH, tree:NAME, tree:FILE.json or dynamic:TOTAL,DEPTH,TOPK was expected',
  );
}

export function formatDraftPolicy(policy: DraftPolicy): string {
  switch (policy.kind) {
    case 'auto':
      return 'auto';
    case 'chain':
      return `chain:${policy.length}`;
    case 'tree':
      return `tree:${policy.source.kind === 'named' ? policy.source.name : policy.source.path}`;
    case 'dynamic':
      return `dynamic:${policy.total},${policy.depth},${policy.topK}`;
  }
}

export function loadTreeShape(source: TreeSource, limits: ShapeLimits = {}): TreeShape {
  if (source.kind === 'named') return namedShape(source.name, limits);
  let text: string;
  try {
    text = readBoundedFileSync(source.path, fileLimits.tree).toString('utf8');
  } catch (cause) {
    throw new MistletoeError('usage', `Cannot read the tree file ${source.path}: ${describeCause(cause)}.`, {
      hint: 'Give the path of a JSON file with an array of rank paths, such as [[0], [1], [0, 0]].',
      cause,
    });
  }
  return parseTreeShape(source.path, text, limits);
}

function parseTreeSource(text: string, source: string): TreeSource {
  if (isStaticTreeName(source)) return { kind: 'named', name: source };
  if (source.endsWith('.json')) return { kind: 'file', path: source };
  const names = Object.keys(staticTrees).join(', ');
  throw badPolicy(text, `the name of a tree (${names}) or a path ending in .json was expected after "tree:"`);
}

function checkDynamic(text: string, policy: DynamicPolicy): DynamicPolicy {
  const { total, depth, topK } = policy;
  if (depth >= deepestDraft || topK > widestDraft || total > maxDraftNodes) {
    throw badPolicy(
      text,
      `a total up to ${maxDraftNodes}, a depth up to ${deepestDraft - 1} and a top-k up to ${widestDraft} were expected`,
    );
  }
  const candidates = topK + depth * topK * topK;
  if (total < 2 || total - 1 > candidates) {
    throw badPolicy(
      text,
      `a total from 2 to ${candidates + 1} was expected: depth ${depth} and top-k ${topK} give ${candidates} candidates`,
    );
  }
  return policy;
}

function parseCounts(text: string): number[] {
  return /^[1-9]\d{0,5}(,[1-9]\d{0,5})*$/.test(text) ? text.split(',').map(Number) : [];
}

function badPolicy(text: string, expected: string): MistletoeError {
  return new MistletoeError('usage', `The draft policy "${text}" is not understood; ${expected}.`, {
    hint: 'Examples: chain:4, tree:mc_sim_7b_63, tree:my-tree.json, dynamic:60,5,10, auto.',
  });
}

/** A policy checked against its drafter, with files read. */
export type ResolvedPolicy =
  | { readonly kind: 'chain'; readonly length: number }
  | { readonly kind: 'tree'; readonly shape: TreeShape }
  | DynamicPolicy;

export interface DrafterLimits {
  readonly name: string;
  readonly maximumDepth: number;
  readonly vocabularySize: number;
  readonly isChainOnly?: boolean | undefined;
}

export function resolvePolicy(
  policy: Exclude<DraftPolicy, { kind: 'auto' }>,
  drafter: DrafterLimits,
): ResolvedPolicy {
  const { name, maximumDepth, vocabularySize, isChainOnly = false } = drafter;
  if (isChainOnly && policy.kind !== 'chain') {
    throw new MistletoeError(
      'usage',
      `The draft policy is ${formatDraftPolicy(policy)}; ${name} has one token to propose at a time, which makes chains.`,
      { hint: 'Use for example chain:4.' },
    );
  }
  const levels = policy.kind === 'tree' ? 0 : levelsOf(policy);
  if (levels > maximumDepth) {
    throw new MistletoeError(
      'usage',
      `The draft policy asks for ${levels} levels; ${name} has ${maximumDepth} heads.`,
      { hint: `Use a policy of at most ${maximumDepth} levels, for example chain:${maximumDepth}.` },
    );
  }
  if (policy.kind === 'dynamic' && policy.topK > vocabularySize) {
    throw new MistletoeError(
      'usage',
      `The draft policy asks for the best ${policy.topK} of ${vocabularySize} tokens.`,
      { hint: 'Lower TOPK in dynamic:TOTAL,DEPTH,TOPK.' },
    );
  }
  return policy.kind === 'tree'
    ? { kind: 'tree', shape: loadTreeShape(policy.source, { maximumDepth, vocabularySize }) }
    : policy;
}

export function levelsOf(policy: ResolvedPolicy): number {
  if (policy.kind === 'tree') return policy.shape.depths.at(-1)!;
  return policy.kind === 'chain' ? policy.length : policy.depth + 1;
}

export function countDraftNodes(policy: ResolvedPolicy): number {
  if (policy.kind === 'chain') return policy.length;
  return policy.kind === 'tree' ? policy.shape.parents.length - 1 : policy.total - 1;
}

/** A smaller shape if there would be more nodes. Shapes are cut before tokens are drawn, which keeps drafts lossless. */
export function fitPolicy(policy: ResolvedPolicy, nodes: number): ResolvedPolicy {
  if (countDraftNodes(policy) <= nodes) return policy;
  if (policy.kind === 'chain') return { kind: 'chain', length: nodes };
  if (policy.kind === 'dynamic') return { ...policy, total: nodes + 1 };
  const { name, parents, ranks, depths } = policy.shape;
  const cut = (values: Int32Array): Int32Array => values.subarray(0, nodes + 1); // parents come first
  return { kind: 'tree', shape: { name, parents: cut(parents), ranks: cut(ranks), depths: cut(depths) } };
}
