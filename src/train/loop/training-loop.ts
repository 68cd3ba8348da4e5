import { listFirst } from '../../core/number-text.js';
import { MistletoeError } from '../../core/errors.js';
import { type StepCounts, acceptedLengthOf } from '../../measure/statistics.js';
import type { BatchPlan, TextBatch } from '../data/batches.js';
import type { TrainSettings } from '../settings.js';
import type { Trainer } from './trainer.js';
import type { Pair } from './losses.js';
import type { LogLine, TrainingProgress } from './training-state.js';

/**
 * The accepted length on held-out texts without decoding. The texts are the target's greedy answers, so a draft token
 * is accepted exactly if it is the text's token, and a chain drafted along accepted tokens is the graph's draft
 * there. Walking an answer this way is greedy decoding with a chain, step by step. For sampled or given answers it is
 * an estimate.
 */
export interface HeldOutLength extends StepCounts {
  /** [level] how many steps accepted the draft up to this level. */
  readonly reached: readonly number[];
}

export function addLengths(left: HeldOutLength, right: HeldOutLength): HeldOutLength {
  return {
    steps: left.steps + right.steps,
    accepted: left.accepted + right.accepted,
    reached: left.reached.map((count, level) => count + right.reached[level]!),
  };
}

export async function measureLength(
  { pair, trainer }: { readonly pair: Pair; readonly trainer: Trainer },
  batches: readonly TextBatch[],
  chain: number,
): Promise<HeldOutLength> {
  const targetTokens = pair.drafter.graph?.targetTokens;
  let sum: HeldOutLength = { steps: 0, accepted: 0, reached: new Array<number>(chain).fill(0) };
  for (const batch of batches) {
    const choices = await trainer.choose(batch, chain);
    const tokens =
      targetTokens === undefined
        ? choices
        : choices.map((level) => level.map((place) => targetTokens[place]!));
    sum = addLengths(sum, walkAnswers(batch, tokens));
  }
  return sum;
}

/** `choices`: [level] most likely target token of each draft row. [batch, position - 2 - level] */
export function walkAnswers(
  { tokens, weights, shape: [, length], texts }: TextBatch,
  choices: readonly Int32Array[],
): HeldOutLength {
  const reached = choices.map(() => 0);
  let [steps, accepted] = [0, 0];
  for (const { row, start, length: own } of texts) {
    const beginning = row * length + start;
    for (const { first, end } of listAnswers(weights.subarray(beginning, beginning + own))) {
      // The prefill gives the first token. The draft after `root` is in the row before it.
      for (let root = Math.max(first, 1); root < end - 1;) {
        let kept = 0;
        const isHit = (level: number): boolean => {
          const width = length - 2 - level;
          return choices[level]![row * width + start + root - 1] === tokens[beginning + root + 1 + level];
        };
        while (kept < choices.length && root + 1 + kept < end && isHit(kept)) reached[kept++]! += 1;
        steps += 1;
        accepted += kept;
        root += kept + 1;
      }
    }
  }
  return { steps, accepted, reached };
}

function listAnswers(weights: Float32Array): { readonly first: number; readonly end: number }[] {
  const answers: { first: number; end: number }[] = [];
  for (let position = 0; position < weights.length; position++) {
    if (weights[position] === 0) continue;
    const first = position;
    while (position < weights.length && weights[position] !== 0) position += 1;
    answers.push({ first, end: position });
  }
  return answers;
}

export interface TrainingWork {
  readonly pair: Pair;
  readonly trainer: Trainer;
  readonly settings: TrainSettings;
  readonly plan: BatchPlan;
  readonly validation: readonly TextBatch[];
  readonly signal?: AbortSignal | undefined;
  readonly onLine: (line: LogLine) => void;
  readonly keepBest: () => Promise<void>;
  readonly save: (progress: TrainingProgress) => Promise<void>;
  /** Called on a NaN loss: keeps the last saved drafter and says where. */
  readonly keepSaved: () => Promise<string>;
}

export type TrainingEnd = 'steps' | 'patience' | 'interrupted';

/** Trains from `start`, whose state the trainer already has, to the end or to an interruption. */
export async function trainSteps(work: TrainingWork, start: TrainingProgress): Promise<TrainingEnd> {
  const { trainer, settings, plan, signal } = work;
  const { steps, accumulation, validateEvery, saveEvery, patience } = settings;
  const began = performance.now();
  let { update, best, sinceBest } = start;
  const progress = (): TrainingProgress => ({
    update,
    best,
    sinceBest,
    elapsedMs: start.elapsedMs + performance.now() - began,
  });
  const measure = async (): Promise<void> => {
    if (work.validation.length === 0) return;
    const length = await measureLength(work, work.validation, settings.chain);
    work.onLine(describeLength(update, length));
    const isBest = best === null || acceptedLengthOf(length) > best.length;
    sinceBest = isBest ? 0 : sinceBest + 1;
    if (!isBest) return;
    best = { update, length: acceptedLengthOf(length) };
    await work.keepBest();
  };

  // A run interrupted before its first update has already measured.
  if (update === 0 && best === null) {
    await measure();
    await work.save(progress());
  }
  while (update < steps) {
    if (signal?.aborted === true) break;
    if (patience > 0 && sinceBest >= patience) return 'patience';
    const rate = learningRate(update, settings);
    let [tokens, loss] = [0, 0];
    const levels = new Array<number>(settings.depth).fill(0);
    const rows = new Array<number>(settings.depth).fill(0);
    const parts: Record<string, number> = {};
    for (let part = 0; part < accumulation; part++) {
      const step = update * accumulation + part;
      const batch = plan.batchAt(step);
      const own = await trainer.accumulate(batch, step);
      if (!Number.isFinite(own.loss)) throw await brokenLoss(work, update, own.loss, batch);
      tokens += own.count;
      loss += own.loss;
      own.levels.forEach((value, level) => (levels[level]! += value));
      own.rows.forEach((count, level) => (rows[level]! += count));
      for (const [part, value] of Object.entries(own.parts)) parts[part] = (parts[part] ?? 0) + value;
    }
    const norm = await trainer.update(update, rate);
    if (!Number.isFinite(norm))
      throw await brokenLoss(work, update, norm, plan.batchAt(update * accumulation));
    update += 1;
    const counted = Math.max(
      1,
      rows.reduce((sum, count) => sum + count, 0),
    );
    work.onLine({
      kind: 'update',
      update,
      loss: loss / Math.max(1, tokens),
      levels: levels.map((sum, level) => sum / Math.max(1, rows[level]!)),
      levelRows: rows,
      ...Object.fromEntries(Object.entries(parts).map(([part, sum]) => [part, sum / counted])),
      norm,
      rate,
      tokens,
    });
    const isLast = update === steps;
    const isMeasured = isLast || update % validateEvery === 0;
    if (isMeasured) await measure();
    if (isMeasured || update % saveEvery === 0) await work.save(progress());
  }
  if (update === steps) return 'steps';
  await work.save(progress());
  return 'interrupted';
}

function describeLength(update: number, length: HeldOutLength): LogLine {
  const { steps, reached } = length;
  return {
    kind: 'length',
    update,
    length: acceptedLengthOf(length),
    steps,
    reached: reached.map((count) => count / Math.max(1, steps)),
  };
}

async function brokenLoss(
  work: TrainingWork,
  update: number,
  value: number,
  { texts }: TextBatch,
): Promise<MistletoeError> {
  const shown = listFirst(texts, 8, ({ id }) => id);
  const kept = await work.keepSaved();
  return new MistletoeError(
    'runtime',
    `The loss became ${value} at update ${update + 1}, on the texts ${shown}; ${kept}.`,
    {
      hint: 'Lower the learning rate, or look at these texts; then begin a new run, from that drafter or anew.',
    },
  );
}

export function learningRate(
  step: number,
  {
    rate,
    warmupSteps,
    steps,
    rateFloor,
  }: Pick<TrainSettings, 'rate' | 'warmupSteps' | 'steps' | 'rateFloor'>,
): number {
  if (step < warmupSteps) return (rate * (step + 1)) / warmupSteps;
  const share = Math.min(1, (step - warmupSteps) / Math.max(1, steps - warmupSteps));
  return rate * (rateFloor + (1 - rateFloor) * 0.5 * (1 + Math.cos(Math.PI * share)));
}
