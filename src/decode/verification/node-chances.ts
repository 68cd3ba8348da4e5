/**
 * What is left of the target's distribution at a node while its children are tried. The rules in verification.ts need
 * only this, so rows may be on the host or on a device that has judged all nodes at once.
 */
import { drawFrom, type Random } from '../../core/random.js';
import { sum } from '../../core/vector.js';
import type { HostLaws, TokenTree, Trial } from '../../draft/tree/token-tree.js';
import { minResidualMass, type JudgedNodes, type NodesToJudge } from '../../model/lanes/sampler.js';

/** Trials come in order, each once. */
export interface NodeChances {
  /**
   * Accepts with probability min(1, p / q), where q is the trial's law without the tokens tried before, renormalized; a
   * rejection replaces p by norm(max(0, p - q)). A certain token has q = 1: it leaves p without it.
   */
  accepts(trial: Trial, random: Random): boolean;
  /** The next token, from what is left. */
  draw(uniform: number): number;
}

export type ChancesOf = (node: number) => NodeChances;

/** [node] -> [vocabulary], of the token after the node. */
export type TargetDistribution = (node: number) => Float32Array;

type HostTree = Pick<TokenTree<HostLaws>, 'tokens' | 'laws'>;

/** Distributions on the host; never written. */
export const hostChances =
  (tree: HostTree, targetDistribution: TargetDistribution): ChancesOf =>
  (node) =>
    new HostChances(tree, targetDistribution(node));

class HostChances implements NodeChances {
  private left: Float32Array;
  private residual: Float32Array | undefined;
  /** [law] Mass of the tokens that were not tried. */
  private readonly untried = new Map<number, number>();

  constructor(
    private readonly tree: HostTree,
    private readonly whole: Float32Array, // [vocabulary]
  ) {
    this.left = whole;
  }

  accepts({ node, law }: Trial, random: Random): boolean {
    const token = this.tree.tokens[node]!;
    if (law === undefined) {
      if (random.next() < this.left[token]!) return true;
      this.left = subtractToken(this.left, token, (this.residual ??= this.newResidual())) ?? this.whole;
      return false;
    }
    const draft = this.tree.laws[law]!;
    const draftProbability = draft[token]!;
    const draftMass = Math.max(this.untried.get(law) ?? 1, draftProbability);
    if (random.next() * draftProbability < this.left[token]! * draftMass) return true;
    // A rejected token has p < q, so its residual is 0.
    this.residual ??= this.newResidual();
    this.left = subtractDistribution(this.left, draft, draftMass, this.residual) ?? this.whole;
    // Summed, not assumed to be 1: after a likely sibling, the rest is as small as the rounding error.
    this.untried.set(law, (this.untried.get(law) ?? sum(draft)) - draftProbability);
    return false;
  }

  draw(uniform: number): number {
    return drawFrom(this.left, { next: () => uniform }, sum(this.left));
  }

  private newResidual(): Float32Array {
    return new Float32Array(this.whole.length);
  }
}

/** The distribution without a token, renormalized into `out`; undefined if only rounding noise is left. */
function subtractToken(
  distribution: Float32Array, // [vocabulary]
  token: number,
  out: Float32Array, // [vocabulary]
): Float32Array | undefined {
  out.set(distribution);
  out[token] = 0;
  return renormalize(out, sum(out));
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
  return renormalize(out, mass);
}

function renormalize(weights: Float32Array, mass: number): Float32Array | undefined {
  if (!(mass > minResidualMass)) return undefined;
  const scale = 1 / mass;
  const { length } = weights;
  for (let token = 0; token < length; token++) weights[token]! *= scale;
  return weights;
}

/** Questions for the device; undefined if trials of a node have several laws, which it can't judge. */
export function askAbout(
  { tokens, trials }: TokenTree,
  uniform: number,
): Omit<NodesToJudge, 'drafted'> | undefined {
  const hasOneLaw = (own: readonly Trial[]): boolean =>
    new Set(own.flatMap(({ law }) => law ?? [])).size <= 1;
  if (!trials.every(hasOneLaw)) return undefined;
  const trialsOf = trials.map((own) =>
    own.map(({ node, law }) => ({ token: tokens[node]!, isCertain: law === undefined })),
  );
  return { trials: trialsOf, uniform };
}

export const judgedChances =
  ({ most, targetProbabilities, draftProbabilities, draftMasses, drawn }: JudgedNodes): ChancesOf =>
  (node) => {
    let place = node * most;
    return {
      accepts(_, random) {
        const draftProbability = draftProbabilities[place]!;
        const likelier = targetProbabilities[place]! * draftMasses[place]!;
        place += 1;
        return random.next() * draftProbability < likelier;
      },
      draw: () => drawn[node]!,
    };
  };
