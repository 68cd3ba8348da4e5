/** The learning rate along a run: a straight way up, then half a cosine down to a part of the peak. */
import { MistletoeError } from '../core/errors.js';

export interface RateSchedule {
  readonly peak: number;
  readonly warmupSteps: number;
  readonly steps: number;
  /** What is left of the peak at the end. */
  readonly floor: number;
}

/** `step` counts from 0: the first update has a rate above 0 already. */
export function learningRate(step: number, { peak, warmupSteps, steps, floor }: RateSchedule): number {
  if (step < warmupSteps) return (peak * (step + 1)) / warmupSteps;
  const way = Math.min(1, (step - warmupSteps) / Math.max(1, steps - warmupSteps));
  return peak * (floor + (1 - floor) * 0.5 * (1 + Math.cos(Math.PI * way)));
}

export function checkSchedule({ peak, warmupSteps, steps, floor }: RateSchedule): void {
  if (peak > 0 && Number.isFinite(peak) && warmupSteps >= 0 && steps > 0 && floor >= 0 && floor <= 1) return;
  throw new MistletoeError(
    'usage',
    `The learning rate has peak ${peak}, ${warmupSteps} warm-up steps of ${steps} and a floor of ${floor}; a peak above 0, whole numbers of steps and a floor between 0 and 1 were expected.`,
    { hint: 'Heads learn well with a peak of 1e-3 and a twentieth of the steps as warm-up.' },
  );
}
