/** A verification rule as the decoding loop uses it: what it asks of the target's pass, and its judgement of a tree. */
import { MistletoeError } from '../core/errors.js';
import type { Random } from '../core/random.js';
import type { SamplingOptions } from '../core/sampling.js';
import { toDistribution } from '../core/sampling.js';
import type { TokenTree } from '../draft/token-tree.js';
import type { ForwardResult } from '../model/causal-model.js';
import type { Verification, VerificationRule } from './verification.js';
import { verifyGreedy, verifyRejection, verifyTypical } from './verification.js';

export interface Verifier {
  readonly want: 'argmax' | 'logits';
  judge(tree: TokenTree, result: ForwardResult): Verification;
}

export function createVerifier(rule: VerificationRule, sampling: SamplingOptions, random: Random): Verifier {
  if (rule === 'greedy') return { want: 'argmax', judge: (tree, { argmax }) => verifyGreedy(tree, argmax!) };
  const distributionOf = (tree: TokenTree, logits: Float32Array) => {
    const width = logits.length / tree.tokens.length;
    return (node: number) => toDistribution(logits.subarray(node * width, (node + 1) * width), sampling);
  };
  return {
    want: 'logits',
    judge: (tree, { logits }) =>
      rule === 'typical'
        ? verifyTypical(tree, distributionOf(tree, logits!))
        : verifyRejection(tree, distributionOf(tree, logits!), random),
  };
}

/** Refuses a rule that the temperature makes no sense of. */
export function checkRule(rule: VerificationRule, { temperature }: SamplingOptions): void {
  if (rule === 'greedy' && temperature > 0) {
    throw new MistletoeError(
      'usage',
      `Greedy verification was asked for at temperature ${temperature}; it needs 0.`,
      {
        hint: 'Leave --verify out, or use rejection (lossless) or typical (lossy) with a temperature.',
      },
    );
  }
  if (rule === 'typical' && temperature === 0) {
    throw new MistletoeError(
      'usage',
      'Typical acceptance was asked for at temperature 0; it needs a temperature above 0.',
      {
        hint: 'Leave --verify out for greedy verification, or give --temperature.',
      },
    );
  }
}
