/** A verification rule as the decoding loop uses it: what it asks of the target's pass, and its judgement of a tree. */
import { MistletoeError } from '../core/errors.js';
import type { Random } from '../core/random.js';
import type { SamplingOptions } from '../core/sampling.js';
import { toDistribution } from '../core/sampling.js';
import type { TokenTree } from '../draft/token-tree.js';
import type { ForwardResult } from '../model/forward.js';
import { followDrawn, followTokens } from './held-verification.js';
import type { TargetDistribution } from './node-chances.js';
import { askAbout, hostChances, judgedChances } from './node-chances.js';
import type { LogitsOnDevice } from './score-place.js';
import type { Verification, VerificationRule } from './verification.js';
import { verifyGreedy, verifyRejection, verifyTypical } from './verification.js';

export interface Verifier {
  readonly want: 'argmax' | 'logits' | 'scores';
  /** `emitted` tokens of the answer are known, the tree's root being the last of them. */
  judge(tree: TokenTree, result: ForwardResult, emitted: number): Verification | Promise<Verification>;
}

/** `kept`: where scores stay and are judged, if not with the host. */
export function createVerifier(
  rule: VerificationRule,
  sampling: SamplingOptions,
  random: Random,
  kept?: LogitsOnDevice,
): Verifier {
  if (rule === 'greedy') return { want: 'argmax', judge: (tree, { argmax }) => verifyGreedy(tree, argmax!) };
  if (rule === 'rejection' && kept !== undefined) {
    return {
      want: 'scores',
      async judge(tree, { scores }) {
        const drafted = tree.origin === 'sampled' ? kept.draftedRows(tree) : undefined;
        const asked = { ...askAbout(tree, random), drafted };
        const judged = await kept.draws.judge(scores!, sampling, asked, kept.meeting);
        drafted?.free();
        return verifyRejection(tree, judgedChances(judged), random);
      },
    };
  }
  return {
    want: 'logits',
    judge(tree, { logits }) {
      const distributions = distributionsOf(tree, logits!, sampling);
      return rule === 'typical'
        ? verifyTypical(tree, distributions)
        : verifyRejection(tree, hostChances(tree, distributions), random);
    },
  };
}

/**
 * Holds the answer to given tokens: drafts are judged by them, whatever the target would say, so that two prompts can
 * be compared along one and the same answer.
 */
export function createHeldVerifier(
  answer: readonly number[],
  sampling: SamplingOptions,
  random: Random,
): Verifier {
  const isGreedy = sampling.temperature === 0;
  return {
    want: isGreedy ? 'argmax' : 'logits',
    judge(tree, { logits }, emitted) {
      // A draft that is certain to be proposed is accepted where it is the answer's token: min(1, q / p) with q = 1.
      const path =
        isGreedy || tree.origin === 'deterministic'
          ? followTokens(tree, answer.slice(emitted))
          : followDrawn(tree, distributionsOf(tree, logits!, sampling), random);
      // Behind the answer's end nothing is asked for any more.
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
