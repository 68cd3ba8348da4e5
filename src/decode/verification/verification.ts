/**
 * Verification: which part of a draft tree is accepted, and the token after it. Parents come before children, so each
 * rule is one loop.
 * Lossless rules emit tokens with exactly the target's distribution, whatever the drafter proposes. They expect
 * processed distributions (temperature, top-k, top-p) and never write to them.
 */
import { drawFrom, type Random } from '../../core/random.js';
import { argmax, sum } from '../../core/vector.js';
import { type HostLaws, pathTo, type TokenTree } from '../../draft/tree/token-tree.js';
import { minResidualMass } from '../../model/lanes/sampler.js';
import type { Runtime } from '../../runtime/program.js';
import type { ChancesOf, TargetDistribution } from './node-chances.js';

export interface Verification {
  /** Accepted nodes in order, without the root. */
  readonly path: readonly number[];
  /** The bonus token, or the correction after a rejection. */
  readonly nextToken: number;
}

export const verificationRules = {
  greedy: { lossless: true, summary: "keeps draft tokens that are the target's most likely token" },
  rejection: { lossless: true, summary: "rejection sampling; the answer has the target's distribution" },
  block: {
    lossless: true,
    summary: 'like rejection, but judges a drawn chain as one block and keeps more of it',
  },
  typical: {
    lossless: false,
    summary: "Medusa's typical acceptance; changes the distribution of the answer",
  },
} as const satisfies Record<string, { readonly lossless: boolean; readonly summary: string }>;

export type VerificationRule = keyof typeof verificationRules;

/** Why answers can differ from plain decoding's; undefined if they are lossless. */
export function findLoss(
  rule: VerificationRule,
  { quantization }: Pick<Runtime, 'quantization'>,
): string | undefined {
  if (!verificationRules[rule].lossless) return `${rule} acceptance`;
  return quantization && `${quantization} weights`;
}

export function verifyGreedy(tree: TokenTree, targetArgmax: Int32Array /* [node] */): Verification {
  const { tokens, parents } = tree;
  const path: number[] = [];
  let node = 0;
  for (let child = 1; child < tokens.length; child++) {
    if (parents[child] === node && tokens[child] === targetArgmax[node]) {
      path.push(child);
      node = child;
    }
  }
  return { path, nextToken: targetArgmax[node]! };
}

/**
 * Rejection sampling (a chain is Leviathan et al., arXiv 2211.17192; siblings drawn without replacement are EAGLE's,
 * arXiv 2401.15077; certain tokens EAGLE-2's, arXiv 2406.16858). Each trial of a node is accepted or changes what is left
 * of the target's distribution there (node-chances.ts); what is left after the last one gives the next token.
 * @param uniform draws the next token; there is one draw, at whichever node
 */
export function verifyRejection(
  { trials }: Pick<TokenTree, 'trials'>,
  chancesOf: ChancesOf,
  random: Random,
  uniform = random.next(),
): Verification {
  const path: number[] = [];
  for (;;) {
    const node = path.at(-1) ?? 0;
    const chances = chancesOf(node);
    const accepted = trials[node]!.find((trial) => chances.accepts(trial, random));
    if (accepted === undefined) return { path, nextToken: chances.draw(uniform) };
    path.push(accepted.node);
  }
}

/**
 * A drawn chain judged as one block (Sun et al., arXiv 2403.10444). A token that the drafter overrates can be kept if its
 * successors make up for it, so the accepted length is never shorter than with rejection. The weight of a prefix is
 *
 *   w_0 = 1,  w_i = min(1, w_{i-1} p(x_i) / q(x_i))
 *
 * A prefix of i < n tokens passes with probability r_i / (r_i + 1 - w_i), where r_i is the mass of max(0, w_i p - q) behind
 * it, and the whole chain with w_n. The longest prefix that passes is kept, and the next token is drawn from that residual.
 */
export function verifyBlock(
  { tokens, laws }: TokenTree<HostLaws>, // a drawn chain: node i is the i-th token
  targetDistribution: TargetDistribution,
  random: Random,
): Verification {
  const last = tokens.length - 1;
  let weight = 1;
  let kept = 0;
  let target = targetDistribution(0);
  let rest = target; // what the next token is drawn from
  for (let node = 0; node <= last; node++) {
    if (node > 0) {
      const token = tokens[node]!;
      weight = Math.min(1, (weight * target[token]!) / laws[node - 1]![token]!);
      target = targetDistribution(node);
    }
    const draft = laws[node];
    const excessOf = (probability: number, token: number): number =>
      Math.max(0, weight * probability - draft![token]!);
    const residual = node < last ? target.map(excessOf) : target;
    const mass = sum(residual);
    const chance = node === last || weight === 1 ? weight : mass / (mass + 1 - weight);
    if (random.next() >= chance) continue;
    kept = node;
    // Without a residual, target and drafter agree up to rounding.
    rest = mass > minResidualMass ? residual : target;
  }
  return {
    path: Array.from({ length: kept }, (_, index) => index + 1),
    nextToken: drawFrom(rest, random, sum(rest)),
  };
}

/** Medusa's defaults. */
const typicalEpsilon = 0.09;
const typicalDelta = 0.3;

/**
 * LOSSY. Typical acceptance (Medusa, arXiv 2401.10774): a token is kept if p(x) > min(epsilon, delta exp(-H(p))).
 * The longest kept path wins, the likelier one among equals, and the next token is the most likely one.
 */
export function verifyTypical(tree: TokenTree, targetDistribution: TargetDistribution): Verification {
  const { tokens, parents, depths } = tree;
  const thresholds = new Float64Array(tokens.length).fill(-1); // [node], for the node's children
  const scores = new Float64Array(tokens.length).fill(-Infinity); // [node], summed log p; -Infinity is not kept
  scores[0] = 0;
  let best = 0;
  for (let node = 1; node < tokens.length; node++) {
    const parent = parents[node]!;
    if (scores[parent] === -Infinity) continue;
    const distribution = targetDistribution(parent);
    if (thresholds[parent] === -1)
      thresholds[parent] = Math.min(typicalEpsilon, typicalDelta * Math.exp(-entropy(distribution)));
    const targetProbability = distribution[tokens[node]!]!;
    if (targetProbability <= thresholds[parent]!) continue;
    scores[node] = scores[parent]! + Math.log(targetProbability);
    const isLonger = depths[node]! > depths[best]!;
    if (isLonger || (depths[node] === depths[best] && scores[node]! > scores[best]!)) best = node;
  }
  return { path: pathTo(tree, best), nextToken: argmax(targetDistribution(best)) };
}

/** With the 1e-5 that Medusa's implementation adds inside the logarithm. */
function entropy(distribution: Float32Array): number {
  const { length } = distribution;
  let total = 0;
  for (let token = 0; token < length; token++) {
    const probability = distribution[token]!;
    if (probability > 0) total -= probability * Math.log(probability + 1e-5);
  }
  return total;
}
