/**
 * What is left of the target's and the drafter's distributions at a node while its children are judged. The rules in
 * verification.ts need only this, so rows may be on the host or on a device that has judged all nodes at once.
 */
import { drawFrom, type Random } from '../../core/random.js';
import { sum } from '../../core/vector.js';
import type { TokenTree } from '../../draft/tree/token-tree.js';
import { minResidualMass, type JudgedNodes, type NodesToJudge } from '../../model/lanes/token-draws.js';

/** Children are judged in order, each once. */
export interface NodeChances {
  targetProbability(token: number): number;
  draftProbability(token: number): number;
  /**
   * Replaces the target's by norm(max(0, p - q / draftMass)); returns the drafter's mass of untried tokens.
   */
  subtractDraft(token: number, draftMass: number): number;
  strike(token: number): void;
  draw(random: Random): number;
}

export type ChancesOf = (node: number) => NodeChances;

/** [node] -> [vocabulary], of the token after the node. */
export type TargetDistribution = (node: number) => Float32Array;

/** Distributions on the host; never written. */
export const hostChances =
  ({ draftDistributions }: TokenTree, targetDistribution: TargetDistribution): ChancesOf =>
  (node) =>
    new HostChances(targetDistribution(node), draftDistributions[node]);

class HostChances implements NodeChances {
  private left: Float32Array;
  private residual: Float32Array | undefined;
  private untriedMass: number | undefined;
  private readonly struck: number[] = [];

  constructor(
    private readonly whole: Float32Array, // [vocabulary]
    private readonly draft: Float32Array | undefined, // [vocabulary]
  ) {
    this.left = whole;
  }

  targetProbability(token: number): number {
    return this.left[token]!;
  }

  draftProbability(token: number): number {
    return this.draft![token]!;
  }

  subtractDraft(token: number, draftMass: number): number {
    const draft = this.draft!;
    this.residual ??= new Float32Array(this.whole.length);
    // A rejected token has p < q, so its residual is already 0.
    this.left = subtractDistribution(this.left, draft, draftMass, this.residual) ?? this.whole;
    // Summed, not assumed to be 1: after a likely sibling, the rest is as small as the rounding error.
    return (this.untriedMass = (this.untriedMass ?? sum(draft)) - draft[token]!);
  }

  strike(token: number): void {
    this.struck.push(token);
  }

  draw(random: Random): number {
    const { left, struck } = this;
    if (struck.length === 0) return drawFrom(left, random);
    const rest = left.slice();
    for (const token of struck) rest[token] = 0;
    const restMass = sum(rest);
    return restMass > minResidualMass ? drawFrom(rest, random, restMass) : drawFrom(left, random);
  }
}

/**
 * norm(max(0, distribution - draftDistribution / draftMass)), written to `out`; undefined if only rounding noise is
 * left.
 */
export function subtractDistribution(
  distribution: Float32Array, // [vocabulary]
  draftDistribution: Float32Array, // [vocabulary]
  draftMass: number,
  out: Float32Array, // [vocabulary]
): Float32Array | undefined {
  const { length } = distribution;
  const draftScale = 1 / draftMass;
  let mass = 0;
  for (let token = 0; token < length; token++) {
    const excess = distribution[token]! - draftDistribution[token]! * draftScale;
    const kept = excess > 0 ? excess : 0;
    out[token] = kept;
    mass += kept;
  }
  if (!(mass > minResidualMass)) return undefined;
  const scale = 1 / mass;
  for (let token = 0; token < length; token++) out[token]! *= scale;
  return out;
}

/** Questions for the device. The random numbers are those that the rules will use; the stream is restored. */
export function askAbout(tree: TokenTree, random: Random): Omit<NodesToJudge, 'drafted'> {
  const { tokens, parents, origin } = tree;
  const children = Array.from(tokens, (): number[] => []);
  const tried = new Int32Array(tokens.length); // [node] children that were judged before it was reached
  for (let node = 1; node < tokens.length; node++) {
    const siblings = children[parents[node]!]!;
    siblings.push(tokens[node]!);
    tried[node] = tried[parents[node]!]! + siblings.length;
  }
  const places = children.map(({ length }, node) => tried[node]! + length);
  const state = random.state();
  const upcoming = Array.from({ length: 1 + Math.max(...places) }, () => random.next());
  random.restore(state);
  return { origin, children, uniforms: places.map((place) => upcoming[place]!) };
}

export const judgedChances =
  (judged: JudgedNodes): ChancesOf =>
  (node) => {
    let place = node * judged.most;
    return {
      targetProbability: () => judged.targetProbabilities[place]!,
      draftProbability: () => judged.draftProbabilities[place]!,
      subtractDraft: () => judged.untriedMasses[place++]!,
      strike: () => {
        place += 1;
      },
      draw(random) {
        random.next(); // the number by which it was drawn
        return judged.drawn[node]!;
      },
    };
  };
