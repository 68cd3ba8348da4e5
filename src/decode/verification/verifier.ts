/** Verification rules as the decoding loop uses them. */
import { MistletoeError } from '../../core/errors.js';
import type { Random } from '../../core/random.js';
import { toDistribution, type SamplingOptions } from '../../core/sampling.js';
import {
  bringLaws,
  type HostLaws,
  isDrawn,
  isOnDevice,
  type TokenTree,
} from '../../draft/tree/token-tree.js';
import type { ForwardResult } from '../../model/forward.js';
import type { LogitsOnDevice } from './logits-location.js';
import type { TargetDistribution } from './node-chances.js';
import { askAbout, hostChances, judgedChances } from './node-chances.js';
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
 * For drafts along the answer. Given that a token comes out, it came from an accepted draft with probability
 * min(p, q) / p = min(1, q / p), where p is what the trials before it leave; a certain draft has q = 1. Over answers drawn
 * from the target, this gives the accepted lengths of free decoding.
 */
export function followDrawn(
  { tokens, trials, laws }: TokenTree<HostLaws>,
  answer: readonly number[],
  targetDistribution: TargetDistribution,
  random: Random,
): number[] {
  const path: number[] = [];
  for (;;) {
    const node = path.at(-1) ?? 0;
    const next = answer[path.length];
    let leftMass = 1;
    const accepted = trials[node]!.find((trial) => {
      const token = tokens[trial.node]!;
      const isNext = token === next;
      if (trial.law === undefined && isNext) return true;
      const targetProbability = targetDistribution(node)[token]!;
      if (trial.law !== undefined)
        return isNext && random.next() * targetProbability < laws[trial.law]![token]! * leftMass;
      leftMass = Math.max(0, leftMass - targetProbability);
      return false;
    });
    if (accepted === undefined) return path;
    path.push(accepted.node);
  }
}

type JudgedOutputs = Pick<ForwardResult, 'argmax' | 'logits' | 'scores'>;

export interface Verifier {
  readonly want: 'argmax' | 'logits' | 'scores';
  /** `emitted`: tokens of the answer so far, including the tree's root. */
  judge(tree: TokenTree, result: JudgedOutputs, emitted: number): Verification | Promise<Verification>;
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
  const judgeOnHost = async (
    tree: TokenTree,
    logits: Float32Array,
    uniform?: number,
  ): Promise<Verification> => {
    const distributions = distributionsOf(tree, logits, sampling);
    if (rule === 'typical') return verifyTypical(tree, distributions);
    const onHost = await bringLaws(tree);
    return rule === 'block' && isOneDrawnChain(tree)
      ? verifyBlock(onHost, distributions, random)
      : verifyRejection(tree, hostChances(onHost, distributions), random, uniform);
  };
  if (rule !== 'rejection' || onDevice === undefined)
    return { want: 'logits', judge: (tree, { logits }) => judgeOnHost(tree, logits!) };
  return {
    want: 'scores',
    async judge(tree, { scores }) {
      const uniform = random.next();
      const asked = askAbout(tree, uniform);
      if (asked === undefined) return judgeOnHost(tree, await onDevice.bringToHost(scores!), uniform);
      const drafted = isDrawn(tree) ? onDevice.lawsByNode(tree) : undefined;
      try {
        const judged = await onDevice.sampler.judge(
          scores!,
          sampling,
          { ...asked, drafted },
          onDevice.scheduler,
        );
        return verifyRejection(tree, judgedChances(judged), random, uniform);
      } finally {
        drafted?.free();
      }
    },
  };
}

/**
 * Siblings and drafts that were not drawn have no block form: rejection is the best there is. Neither have joined
 * drafts, even where all agree: the rule must not depend on what was drawn.
 */
const isOneDrawnChain = (tree: TokenTree): boolean =>
  isDrawn(tree) && tree.trials.every(({ length }, node) => length === Number(node < tree.tokens.length - 1));

/** Judges drafts along a given answer, so that two prompts can be compared along the same answer. */
function createHeldVerifier(answer: readonly number[], sampling: SamplingOptions, random: Random): Verifier {
  const isGreedy = sampling.temperature === 0;
  return {
    want: isGreedy ? 'argmax' : 'logits',
    judge(tree, { logits }, emitted) {
      const left = answer.slice(emitted);
      const path =
        isGreedy || isOnDevice(tree.laws)
          ? followTokens(tree, left)
          : followDrawn({ ...tree, laws: tree.laws }, left, distributionsOf(tree, logits!, sampling), random);
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
