/** Verification rules as the decoding loop uses them. */
import { MistletoeError } from '../../core/errors.js';
import type { Random } from '../../core/random.js';
import { toDistribution, type SamplingOptions } from '../../core/sampling.js';
import type { TokenTree } from '../../draft/tree/token-tree.js';
import type { ForwardResult } from '../../model/forward.js';
import type { LogitsOnDevice } from '../plain.js';
import { askAbout, hostChances, judgedChances, type TargetDistribution } from './node-chances.js';
import type { Verification, VerificationRule } from './verification.js';
import { verifyBlock, verifyGreedy, verifyRejection, verifyTypical } from './verification.js';

/**
 * The longest path along the given tokens. At temperature 0 a draft token counts as accepted if it is the answer's.
 */
export function followTokens({ tokens, parents }: TokenTree, answer: readonly number[]): number[] {
  const path: number[] = [];
  for (let node = 1; node < tokens.length && path.length < answer.length; node++) {
    if (parents[node] === (path.at(-1) ?? 0) && tokens[node] === answer[path.length]) path.push(node);
  }
  return path;
}

/**
 * For a chain drafted along the answer. Given that a token comes out, it came from an accepted draft with probability
 * min(p, q) / p = min(1, q / p). Over answers drawn from the target, this gives the accepted lengths of free
 * decoding.
 */
export function followDrawn(
  { tokens, draftDistributions }: TokenTree,
  targetDistribution: TargetDistribution,
  random: Random,
): number[] {
  const path: number[] = [];
  for (let node = 1; node < tokens.length; node++) {
    const token = tokens[node]!;
    const targetProbability = targetDistribution(node - 1)[token]!;
    const draftProbability = draftDistributions[node - 1]![token]!;
    if (random.next() * targetProbability >= draftProbability) break;
    path.push(node);
  }
  return path;
}

export interface Verifier {
  readonly want: 'argmax' | 'logits' | 'scores';
  /** `emitted`: tokens of the answer so far, including the tree's root. */
  judge(tree: TokenTree, result: ForwardResult, emitted: number): Verification | Promise<Verification>;
}

export function createVerifier(
  rule: VerificationRule,
  { sampling, held }: { readonly sampling: SamplingOptions; readonly held?: readonly number[] | undefined },
  random: Random,
  onDevice?: LogitsOnDevice,
): Verifier {
  checkRule(rule, sampling);
  if (held !== undefined) return createHeldVerifier(held, sampling, random);
  if (rule === 'greedy') return { want: 'argmax', judge: (tree, { argmax }) => verifyGreedy(tree, argmax!) };
  if (rule === 'rejection' && onDevice !== undefined) {
    return {
      want: 'scores',
      async judge(tree, { scores }) {
        const drafted = tree.origin === 'sampled' ? onDevice.draftedRows(tree) : undefined;
        const asked = { ...askAbout(tree, random), drafted };
        const judged = await onDevice.draws.judge(scores!, sampling, asked, onDevice.scheduler);
        drafted?.free();
        return verifyRejection(tree, judgedChances(judged), random);
      },
    };
  }
  return {
    want: 'logits',
    async judge(tree, { logits }) {
      const distributions = distributionsOf(tree, logits!, sampling);
      if (rule === 'typical') return verifyTypical(tree, distributions);
      const onHost = await bringToHost(tree);
      // Siblings and drafts that were not drawn have no block form: rejection is the best there is.
      const isChain = tree.parents.every((parent, node) => parent === node - 1);
      return rule === 'block' && onHost.origin === 'sampled' && isChain
        ? verifyBlock(onHost, distributions, random)
        : verifyRejection(onHost, hostChances(onHost, distributions), random);
    },
  };
}

/** The tree with the distributions that its tokens were drawn from, which a runtime may have kept. */
async function bringToHost(tree: TokenTree): Promise<TokenTree> {
  const { keptDistributions } = tree;
  if (keptDistributions === undefined) return tree;
  const [rows, { width, rowCount }] = [await keptDistributions.read(), keptDistributions];
  keptDistributions.free();
  const draftDistributions = Array.from({ length: rowCount }, (_, row) =>
    rows.subarray(row * width, (row + 1) * width),
  );
  return { ...tree, draftDistributions, keptDistributions: undefined };
}

/** Judges drafts along a given answer, so that two prompts can be compared along the same answer. */
function createHeldVerifier(answer: readonly number[], sampling: SamplingOptions, random: Random): Verifier {
  const isGreedy = sampling.temperature === 0;
  return {
    want: isGreedy ? 'argmax' : 'logits',
    judge(tree, { logits }, emitted) {
      // A deterministic draft is accepted if it is the answer's token: min(1, q / p) with q = 1.
      const path =
        isGreedy || tree.origin === 'deterministic'
          ? followTokens(tree, answer.slice(emitted))
          : followDrawn(tree, distributionsOf(tree, logits!, sampling), random);
      return { path, nextToken: answer[emitted + path.length] ?? answer.at(-1)! };
    },
  };
}

function distributionsOf(
  tree: TokenTree,
  logits: Float32Array, // [node, vocabulary]
  sampling: SamplingOptions,
): TargetDistribution {
  const width = logits.length / tree.tokens.length;
  return (node) => toDistribution(logits.subarray(node * width, (node + 1) * width), sampling);
}

export function checkRule(rule: VerificationRule, { temperature }: SamplingOptions): void {
  if (rule === 'greedy' && temperature > 0) {
    throw new MistletoeError(
      'usage',
      `Greedy verification was asked for at temperature ${temperature}; it needs 0.`,
      {
        hint: 'Leave --verification-rule out, or use rejection (lossless) or typical (lossy) with a temperature.',
      },
    );
  }
  if ((rule !== 'block' && rule !== 'typical') || temperature > 0) return;
  throw new MistletoeError(
    'usage',
    rule === 'block'
      ? 'Block verification was asked for at temperature 0, where drafts are not drawn.'
      : 'Typical acceptance was asked for at temperature 0; it needs a temperature above 0.',
    { hint: 'Leave --verification-rule out for greedy verification, or give --temperature.' },
  );
}
