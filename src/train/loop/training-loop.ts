import { MistletoeError } from '../../core/errors.js';
import type { BatchPlan } from '../data/batches.js';
import type { HeldOutLength } from './held-out-length.js';
import { measureLength } from './held-out-length.js';
import type { TrainSettings } from '../settings.js';
import type { TextBatch } from '../data/text-batch.js';
import type { Trainer } from './trainer.js';
import type { Pair } from './training-graph.js';
import type { LogLine } from './training-log.js';
import type { TrainingProgress } from './training-state.js';
import { acceptedLengthOf } from '../../measure/step-counts.js';

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
  /** Called on a NaN loss: keeps the last saved drafter and returns its update. */
  readonly keepSaved: () => Promise<number>;
}

export type TrainingEnd = 'steps' | 'patience' | 'interrupted';

/** Trains from `start`, whose state the trainer already has, to the end or to an interruption. */
export async function trainSteps(work: TrainingWork, start: TrainingProgress): Promise<TrainingEnd> {
  const { trainer, settings, plan, signal } = work;
  const { steps, accumulation, validateEvery, saveEvery, patience } = settings;
  const began = performance.now();
  let { update, best, sinceBest } = start;
  const progress = (): TrainingProgress => ({
    ...{ update, best, sinceBest },
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
    const rate = learningRate(update, {
      ...{ peak: settings.rate, warmupSteps: settings.warmupSteps },
      ...{ steps, floor: settings.rateFloor },
    });
    let [tokens, loss] = [0, 0];
    const levels = new Array<number>(settings.depth).fill(0);
    const rows = new Array<number>(settings.depth).fill(0);
    for (let part = 0; part < accumulation; part++) {
      const step = update * accumulation + part;
      const batch = plan.batchAt(step);
      const own = await trainer.accumulate(batch, step);
      if (!Number.isFinite(own.loss)) throw await brokenLoss(work, update, own.loss, batch);
      tokens += own.count;
      loss += own.loss;
      own.levels.forEach((value, level) => (levels[level]! += value));
      own.rows.forEach((count, level) => (rows[level]! += count));
    }
    const norm = await trainer.update(update, rate);
    if (!Number.isFinite(norm))
      throw await brokenLoss(work, update, norm, plan.batchAt(update * accumulation));
    update += 1;
    work.onLine({
      ...{ kind: 'update', update, loss: loss / Math.max(1, tokens) },
      ...{ levels: levels.map((sum, level) => sum / Math.max(1, rows[level]!)), levelRows: rows },
      ...{ norm, rate, tokens },
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
    ...{ kind: 'length', update, length: acceptedLengthOf(length), steps },
    reached: reached.map((count) => count / Math.max(1, steps)),
  };
}

async function brokenLoss(
  work: TrainingWork,
  update: number,
  value: number,
  { texts }: TextBatch,
): Promise<MistletoeError> {
  const shown = texts
    .slice(0, 8)
    .map(({ id }) => id)
    .join(', ');
  const more = texts.length > 8 ? ` and ${texts.length - 8} more` : '';
  const kept = await work.keepSaved();
  return new MistletoeError(
    'runtime',
    `The loss became ${value} at update ${update + 1}, on the texts ${shown}${more}; the drafter after update ${kept} is in last/.`,
    {
      hint: 'Lower the learning rate, or look at these texts; then begin a new run, from that drafter or anew.',
    },
  );
}

interface RateSchedule {
  readonly peak: number;
  readonly warmupSteps: number;
  readonly steps: number;
  readonly floor: number;
}

export function learningRate(step: number, { peak, warmupSteps, steps, floor }: RateSchedule): number {
  if (step < warmupSteps) return (peak * (step + 1)) / warmupSteps;
  const way = Math.min(1, (step - warmupSteps) / Math.max(1, steps - warmupSteps));
  return peak * (floor + (1 - floor) * 0.5 * (1 + Math.cos(Math.PI * way)));
}
