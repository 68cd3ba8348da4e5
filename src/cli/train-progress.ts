/** A training run's events as progress: first the answers that the target writes, then the updates. */
import { countText, fixed, groupThousands, parameterText } from '../core/number-text.js';
import type { StartedTraining, TrainEvents } from '../train/train-run.js';
import { nameStart } from '../train/systems/training-start.js';
import type { ProgressClock } from './audit-progress.js';
import { roughDuration } from './audit-progress.js';
import type { Progress } from './progress.js';
import { typedPath } from './train-text.js';

/** What the losses of earlier updates count in the one that is shown. */
const memory = 0.9;

export function createTrainProgress(progress: Progress, { now }: ProgressClock): TrainEvents {
  let pace: Pace | undefined;
  let steps = 0;
  let tokens = 0;
  let accepted: number | undefined;
  const smooth = createSmoothing();
  return {
    onNotice: progress.note,
    onOpen({ folder, request }) {
      const { system, target, from, shape } = request;
      const start = `${from === undefined ? '' : 'on from '}${nameStart({ from, ...shape })}`;
      progress.note(`train: ${system} for ${target.name}, ${start}, run folder ${typedPath(folder)}`, {
        folder,
        system,
        target: target.name,
      });
    },
    onAnswers({ done, total, newTokens }) {
      if (pace === undefined) {
        if (done === total) return;
        pace = createPace(now, done);
        progress.start(total, 'answers');
      }
      const speed = newTokens / pace.seconds();
      const leftMs = pace.left(done, total);
      const fields = leftMs === undefined ? {} : { leftMs: Math.round(leftMs) };
      progress.update(done, { newTokens, ...fields }, () => [
        ...describeLeft(leftMs),
        ...(newTokens === 0 ? [] : [`${fixed(speed, 0)} tokens/s`]),
      ]);
    },
    onStart(start) {
      ({ steps } = start.request.settings);
      pace = createPace(now, start.update);
      progress.note(describeStart(start), { parameterCount: start.parameterCount, update: start.update });
      progress.start(steps, 'train');
      progress.update(start.update, {}, () => []);
    },
    onLine(line) {
      const { update } = line;
      if (line.kind === 'length') accepted = line.length;
      else tokens += line.tokens;
      const loss = line.kind === 'update' ? smooth(line.loss) : undefined;
      const leftMs = pace?.left(update, steps);
      const speed = tokens / (pace?.seconds() ?? NaN);
      const length = accepted === undefined ? {} : { accepted };
      const fields = line.kind === 'update' ? { loss: line.loss, rate: line.rate, ...length } : length;
      progress.update(
        update,
        { ...fields, ...(leftMs === undefined ? {} : { leftMs: Math.round(leftMs) }) },
        () => [
          ...describeLeft(leftMs),
          ...(loss === undefined ? [] : [`loss ${fixed(loss, 3)}`]),
          ...(accepted === undefined ? [] : [`accepted ${fixed(accepted, 2)}`]),
          ...(tokens === 0 ? [] : [`${fixed(speed, 0)} tokens/s`]),
        ],
      );
    },
  };
}

function describeStart({ request, texts, parameterCount, update }: StartedTraining): string {
  const { trainingCounts, heldOutCounts } = texts;
  const learnt = `${countText(trainingCounts.examples, 'text')} with ${groupThousands(trainingCounts.learntTokens)} tokens to foresee`;
  const goesOn = update === 0 ? '' : `, on from update ${update}`;
  return `train: ${parameterText(parameterCount)}, ${learnt}, ${heldOutCounts.examples} held out, ${request.settings.steps} updates${goesOn}`;
}

export interface Pace {
  seconds(): number;
  /** Undefined until something was done. */
  left(done: number, total: number): number | undefined;
}

/** From `first` on: what an earlier start has done says nothing about how fast this one is. */
export function createPace(now: () => number, first: number): Pace {
  const began = now();
  return {
    seconds: () => (now() - began) / 1000,
    left: (done, total) => (done > first ? ((now() - began) / (done - first)) * (total - done) : undefined),
  };
}

/** A moving mean that is as good at its beginning. */
function createSmoothing(): (value: number) => number {
  let [sum, weight] = [0, 0];
  return (value) => {
    sum = memory * sum + value;
    weight = memory * weight + 1;
    return sum / weight;
  };
}

export function describeLeft(milliseconds: number | undefined): string[] {
  return milliseconds === undefined ? [] : [`left ${roughDuration(milliseconds)}`];
}
