/**
 * The answer that target and drafter are held to, as graph inputs. A draft token is accepted along an answer x with
 * probability
 * greedy: 1 if it is x, else 0
 * sampling: P(drafted and accepted | x comes out) = min(p(x), q(x)) / p(x) = min(1, q(x) / p(x))
 * because x comes out with probability p(x), and through an accepted draft with min(p(x), q(x)) (Leviathan et al.,
 * arXiv 2211.17192). The mean over answers drawn from the target is the acceptance rate, 1 - total variation.
 */
import { type Dimension, symbol } from '../../graph/dimension.js';
import { type Tensor, input } from '../../graph/tensor.js';
import {
  cast,
  equal,
  exponential,
  greater,
  minimum,
  select,
  subtract,
} from '../../graph/operations/elementwise.js';
import { pick } from '../../graph/operations/indexing.js';
import { logSoftmax, reduceMaximum } from '../../graph/operations/reductions.js';
import { broadcast, reshape, slice } from '../../graph/operations/shaping.js';
import { type NamedValues, float32, int32 } from '../../runtime/program.js';
import type { ForcedPass } from './forced-pass.js';
import { createRandom } from '../../core/random.js';
import type { Drafter } from '../../draft/drafter.js';
import { likelyTokens } from '../../draft/joined/joined.js';
import type { StepCounts } from '../../measure/statistics.js';

/** As many as the clean answer has, up to the window. */
export const window: Dimension = symbol('window');

export interface HeldAnswer {
  readonly tokens: Tensor; // [window]
  /** 0 if the drafter cannot propose the token. [window] */
  readonly draftTokens: Tensor;
  /** 1 if the drafter can propose the token, else 0. [window, 1] */
  readonly draftable: Tensor;
  /** Weight of a position in means. [window, 1] */
  readonly weights: Tensor;
  /** Undefined if the vocabularies are equal. */
  readonly targetTokens: Int32Array | undefined;
}

export function declareAnswer(targetTokens: Int32Array | undefined, length: Dimension = window): HeldAnswer {
  return {
    tokens: input('answer', [length], 'int32'),
    draftTokens: input('answerInDraft', [length], 'int32'),
    draftable: input('draftable', [length, 1]),
    weights: input('weights', [length, 1]),
    targetTokens,
  };
}

export function answerInputs(
  answerIds: readonly number[],
  targetTokens: Int32Array | undefined,
): NamedValues {
  const places =
    targetTokens === undefined ? undefined : new Map(Array.from(targetTokens, (id, at) => [id, at]));
  const drafted = answerIds.map((id) => (places === undefined ? id : places.get(id)));
  const column = [answerIds.length, 1] as const;
  return {
    answer: int32(answerIds),
    answerInDraft: int32(drafted.map((id) => id ?? 0)),
    draftable: float32(
      Float32Array.from(drafted, (id) => Number(id !== undefined)),
      column,
    ),
    weights: float32(new Float32Array(answerIds.length).fill(1), column),
  };
}

/** From answer position `first` on. [window - first, 1] */
export function answerRows({ weights }: HeldAnswer, first: number): Tensor {
  return first === 0 ? weights : slice(weights, 0, first);
}

export interface DraftedScores {
  /** Of the answer's token. [batch, row, 1] */
  readonly scores: Tensor;
  /** [row, 1] */
  readonly draftable: Tensor;
}

/** Row j of depth d belongs to answer token j + 1 + d. */
export function draftedScores(pass: ForcedPass, depth: number, answer: HeldAnswer): DraftedScores {
  const logits = pass.draftLogits[depth]!;
  return {
    scores: pickTokens(logits, slice(answer.draftTokens, 0, 1 + depth)),
    draftable: greater(slice(answer.draftable, 0, 1 + depth), 0.5),
  };
}

/** Of the answer's tokens. [batch, window, 1] */
export function targetScores({ targetLogits }: Pick<ForcedPass, 'targetLogits'>, answer: HeldAnswer): Tensor {
  return pickTokens(targetLogits, answer.tokens);
}

/** x [batch, row, token], tokens [row] -> [batch, row, 1] */
function pickTokens(x: Tensor, tokens: Tensor): Tensor {
  const [batch, row] = x.shape as [Dimension, Dimension];
  const indices = broadcast(reshape(tokens, [1, row]), [batch, row]);
  return reshape(pick(x, indices), [batch, row, 1]);
}

/** [batch, window - 1 - depth] */
export function acceptanceAlong(
  pass: ForcedPass,
  depth: number,
  answer: HeldAnswer,
  temperature: number,
): Tensor {
  const logits = pass.draftLogits[depth]!;
  const { scores, draftable } = draftedScores(pass, depth, answer);
  const fromDepth = (x: Tensor, axis: number): Tensor => slice(x, axis, 1 + depth);
  const chance = (): Tensor => {
    const targetLogProbabilities = fromDepth(logSoftmax(pass.targetLogits), 1);
    const draftLog = pickTokens(logSoftmax(logits), fromDepth(answer.draftTokens, 0));
    const targetLog = pickTokens(targetLogProbabilities, fromDepth(answer.tokens, 0));
    return minimum(1, exponential(subtract(draftLog, targetLog)));
  };
  const accepted = temperature === 0 ? cast(equal(scores, reduceMaximum(logits)), 'float32') : chance();
  const [batch, row] = logits.shape as [Dimension, Dimension];
  return reshape(select(draftable, accepted, 0), [batch, row]);
}

/** 1 if the answer's token is the target's most likely one. [batch, window] */
export function followsAnswer(pass: Pick<ForcedPass, 'targetLogits'>, answer: HeldAnswer): Tensor {
  const { targetLogits } = pass;
  const [batch, row] = targetLogits.shape as [Dimension, Dimension];
  const isBest = equal(targetScores(pass, answer), reduceMaximum(targetLogits));
  return reshape(cast(isBest, 'float32'), [batch, row]);
}

// Accepted length along a given answer, from the acceptance of every draft token. A step with answer token i as root
// accepts the following tokens up to the first failure; the target adds the next, the new root. With probabilities
// the same walk gives expectations: `reached[i]` is the probability that token i is a root.
/** [level][row] From answer token `row` as root. */
type AcceptanceTable = readonly Float32Array[];

export function walkAnswer(table: AcceptanceTable, answerLength: number): StepCounts {
  return walkDrafts(answerLength, (root) => ratesFrom(table, root));
}

/**
 * With lookups beside the drafter, in one tree (draft/joined/joined.ts). What they have right is accepted; after it, the
 * drafter goes on where its own path is the answer: always if it was drawn along the answer.
 */
export function walkWithLookups(
  table: AcceptanceTable,
  lookups: readonly Drafter[],
  promptIds: readonly number[],
  answerIds: readonly number[],
  temperature: number,
): StepCounts {
  const sessions = lookups.map((lookup) => lookup.startSession());
  const read = (tokens: readonly number[], next: number): void => {
    for (const session of sessions)
      session.observe({ tokens: Int32Array.from(tokens), states: undefined, next });
  };
  let newest = 0;
  read(promptIds, answerIds[0]!);
  return walkDrafts(answerIds.length, (root) => {
    if (root > newest) read(answerIds.slice(newest, root), answerIds[root]!);
    newest = root;
    const right = sessions.map((session) => {
      const tokens = likelyTokens(session.suggest(table.length));
      const wrong = tokens.findIndex((token, level) => token !== answerIds[root + 1 + level]);
      return wrong < 0 ? tokens.length : wrong;
    });
    const found = Math.max(0, ...right);
    let isOnPath = true;
    return ratesFrom(table, root).map((rate, level) => {
      const own = isOnPath || temperature > 0 ? rate : 0;
      isOnPath &&= rate === 1;
      return level < found ? 1 : own;
    });
  });
}

const ratesFrom = (table: AcceptanceTable, root: number): readonly number[] =>
  table.map((row) => row[root] ?? 0);

/** @param draftFrom the chance of each level's token, after accepted ones, of the draft from a root */
function walkDrafts(answerLength: number, draftFrom: (root: number) => readonly number[]): StepCounts {
  const reached = new Float64Array(Math.max(answerLength, 1));
  reached[0] = 1;
  let steps = 0;
  let accepted = 0;
  for (let root = 0; root < answerLength - 1; root++) {
    const share = reached[root]!;
    if (share === 0) continue;
    steps += share;
    const rates = draftFrom(root);
    let survival = share;
    for (let level = 0; survival > 0; level++) {
      const next = root + 1 + level;
      const kept = level < rates.length && next < answerLength ? survival * rates[level]! : 0;
      if (next < answerLength) reached[next]! += survival - kept;
      accepted += kept;
      survival = kept;
    }
  }
  return { steps, accepted };
}

/**
 * Drafts of a text-only drafter along an answer need no target pass. A draft is accepted if it is the answer's token;
 * above temperature 0 too, because a certain proposal is accepted with min(1, 1 / p) = 1.
 */
/** `levels`: chain length. */
export async function countDraftsAlong(
  drafter: Drafter,
  promptIds: readonly number[],
  answerIds: readonly number[],
  levels: number,
): Promise<StepCounts> {
  const session = drafter.startSession();
  const random = createRandom(0); // nothing is drawn
  const read = (tokens: readonly number[], next: number): void => {
    session.observe({ tokens: Int32Array.from(tokens), states: undefined, next });
  };
  let root = 0; // its place in the answer
  let [steps, accepted] = [0, 0];
  try {
    read(promptIds, answerIds[0]!);
    while (root < answerIds.length - 1) {
      const { tokens } = await session.propose({
        ...{ root: answerIds[root]!, policy: { kind: 'chain', length: levels }, depthLimit: levels },
        ...{ sampling: { temperature: 0 }, random },
      });
      const drafted = tokens.subarray(1);
      const ahead = answerIds.slice(root + 1, root + 1 + drafted.length);
      const wrong = ahead.findIndex((token, level) => token !== drafted[level]);
      const kept = wrong < 0 ? ahead.length : wrong;
      const next = root + kept + 1;
      read(answerIds.slice(root, next), answerIds[next] ?? answerIds.at(-1)!);
      root = next;
      steps += 1;
      accepted += kept;
    }
  } finally {
    session.close();
  }
  return { steps, accepted };
}
