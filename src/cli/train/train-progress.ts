/** The progress of a training run: answers of the target, then weight updates. */
import { countText, fixed, groupThousands, parameterText } from '../../core/number-text.js';
import type { StartedTraining, TrainEvents } from '../../train/train-run.js';
import { nameStart } from '../../train/training-start.js';
import { typedPath } from '../long-runs.js';
import { type Clock, type Progress, stopwatch } from '../progress.js';

/** Weight of earlier losses in the displayed one. */
const memory = 0.9;

export function createTrainProgress(progress: Progress, now: Clock = stopwatch): TrainEvents {
  let startMs: number | undefined;
  let tokens = 0;
  let accepted: number | undefined;
  const smooth = createSmoothing();
  const speedText = (count: number): string => {
    const seconds = (now() - (startMs ?? NaN)) / 1000;
    return `${fixed(count / seconds, 0)} tokens/s`;
  };
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
      if (startMs === undefined) {
        if (done === total) return;
        startMs = now();
        progress.start(total, 'answers');
      }
      progress.update(done, { newTokens }, newTokens === 0 ? [] : [speedText(newTokens)]);
    },
    onStart(start) {
      const { steps, labelWeight, distanceWeight, confidenceWeight } = start.request.settings;
      startMs = now();
      progress.note(describeStart(start), { parameterCount: start.parameterCount, update: start.update });
      if (distanceWeight > 0 || confidenceWeight > 0)
        progress.note(
          `train: loss = ${labelWeight} × cross-entropy + ${distanceWeight} × L1 distance to the target's distribution + ${confidenceWeight} × cross-entropy of the confidence head`,
        );
      progress.start(steps, 'train');
      progress.update(start.update, {}, []);
    },
    onLine(line) {
      if (line.kind === 'length') {
        accepted = line.length;
        progress.update(line.update, { accepted });
        return;
      }
      const { update, loss, distance, rate } = line;
      tokens += line.tokens;
      progress.update(update, { loss, distance, rate, accepted }, [
        `loss ${fixed(smooth(loss), 3)}`,
        ...(distance === undefined ? [] : [`distance ${fixed(distance, 3)}`]),
        ...(accepted === undefined ? [] : [`accepted ${fixed(accepted, 2)}`]),
        speedText(tokens),
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

/** A moving average without startup bias. */
function createSmoothing(): (value: number) => number {
  let [sum, weight] = [0, 0];
  return (value) => {
    sum = memory * sum + value;
    weight = memory * weight + 1;
    return sum / weight;
  };
}
