/** The progress of a training run: answers of the target, then weight updates. */
import { countText, fixed, groupThousands, parameterText } from '../../core/number-text.js';
import type { StartedTraining, TrainEvents } from '../../train/train-run.js';
import { nameStart } from '../../train/training-start.js';
import { typedPath } from '../long-runs.js';
import { type Progress, type ProgressClock, describeLeft } from '../progress.js';

/** Weight of earlier losses in the displayed one. */
const memory = 0.9;

export function createTrainProgress(progress: Progress, { now }: ProgressClock): TrainEvents {
  let pace: ReturnType<typeof createPace> | undefined;
  let steps = 0;
  let tokens = 0;
  let accepted: number | undefined;
  const smooth = createSmoothing();
  return {
    onNotice: progress.note,
    onOpen({ folder, request }) {
      const { system, target, from, shape } = request;
      const start = `${from === undefined ? '' : 'starting from '}${nameStart({ from, ...shape })}`;
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
      progress.update(done, { newTokens, leftMs: leftMs && Math.round(leftMs) }, () => [
        ...describeLeft(leftMs),
        ...(newTokens === 0 ? [] : [`${fixed(speed, 0)} tokens/s`]),
      ]);
    },
    onStart(start) {
      ({ steps } = start.request.settings);
      pace = createPace(now, start.update);
      progress.note(describeStart(start), { parameterCount: start.parameterCount, update: start.update });
      const { labelWeight, distanceWeight, confidenceWeight } = start.request.settings;
      if (distanceWeight > 0 || confidenceWeight > 0)
        progress.note(
          `train: loss = ${labelWeight} × cross-entropy + ${distanceWeight} × L1 distance to the target's distribution + ${confidenceWeight} × cross-entropy of the confidence head`,
        );
      progress.start(steps, 'train');
      progress.update(start.update, {}, () => []);
    },
    onLine(line) {
      const { update } = line;
      if (line.kind === 'length') accepted = line.length;
      else tokens += line.tokens;
      const loss = line.kind === 'update' ? smooth(line.loss) : undefined;
      const distance = line.kind === 'update' ? line.distance : undefined;
      const leftMs = pace?.left(update, steps);
      const speed = tokens / (pace?.seconds() ?? NaN);
      const fields = line.kind === 'update' ? { loss: line.loss, distance, rate: line.rate } : {};
      progress.update(update, { ...fields, accepted, leftMs: leftMs && Math.round(leftMs) }, () => [
        ...describeLeft(leftMs),
        ...(loss === undefined ? [] : [`loss ${fixed(loss, 3)}`]),
        ...(distance === undefined ? [] : [`distance ${fixed(distance, 3)}`]),
        ...(accepted === undefined ? [] : [`accepted ${fixed(accepted, 2)}`]),
        ...(tokens === 0 ? [] : [`${fixed(speed, 0)} tokens/s`]),
      ]);
    },
  };
}

function describeStart({ request, texts, parameterCount, update }: StartedTraining): string {
  const { trainingCounts, heldOutCounts } = texts;
  const learned = `${countText(trainingCounts.examples, 'text')} with ${groupThousands(trainingCounts.learntTokens)} tokens to predict`;
  const resumed = update === 0 ? '' : `, resumed after update ${update}`;
  return `train: ${parameterText(parameterCount)}, ${learned}, ${heldOutCounts.examples} held out, ${request.settings.steps} updates${resumed}`;
}

/** Counts from `first`: updates of an earlier start do not count towards the speed. */
export function createPace(now: () => number, first: number) {
  const began = now();
  return {
    seconds: () => (now() - began) / 1000,
    /** Undefined until something was done. */
    left: (done: number, total: number): number | undefined =>
      done > first ? ((now() - began) / (done - first)) * (total - done) : undefined,
  };
}

/** A moving average without startup bias. */
function createSmoothing(): (value: number) => number {
  let [sum, weight] = [0, 0];
  return (value) => {
    sum = memory * sum + value;
    weight = memory * weight + 1;
    return sum / weight;
  };
}
