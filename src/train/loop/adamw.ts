/**
 * AdamW with decoupled weight decay (Loshchilov and Hutter, arXiv 1711.05101) as one graph over all parameters.
 * Gradients are first divided by their count and clipped by their common norm.
 * m <- b1 m + (1 - b1) g, v <- b2 v + (1 - b2) g^2
 * p <- p - rate (m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + epsilon) + decay p)
 * Only matrices decay, not norms and biases.
 */
import {
  add,
  divide,
  maximum,
  minimum,
  multiply,
  reciprocalSquareRoot,
  subtract,
} from '../../graph/operations/elementwise.js';
import { constant, input } from '../../graph/operations/leaves.js';
import { sum } from '../../graph/operations/reductions.js';
import { reshape } from '../../graph/operations/shaping.js';
import type { Tensor } from '../../graph/tensor.js';
import type { NamedTensors, NamedValues } from '../../runtime/program.js';
import { float32 } from '../../runtime/program.js';
import type { ParameterSlot } from './parameter-buffers.js';
import { slotName } from './parameter-buffers.js';

export interface AdamOptions {
  readonly firstDecay: number; // b1
  readonly secondDecay: number; // b2
  readonly epsilon: number;
  readonly weightDecay: number;
  /** Max norm of all gradients together. */
  readonly clip: number;
}

export const adamDefaults: AdamOptions = {
  firstDecay: 0.9,
  secondDecay: 0.95,
  epsilon: 1e-8,
  weightDecay: 0,
  clip: 0.5,
};

/** The smallest normal number, so that the square root of 0 is 0. */
const tiny = 2 ** -126;

const squareRoot = (x: Tensor): Tensor => multiply(x, reciprocalSquareRoot(maximum(x, tiny)));

/** Outputs: updated parameters and moments, and `norm` before clipping. */
export function buildUpdate(
  shapes: ReadonlyMap<string, readonly number[]>,
  { firstDecay, secondDecay, epsilon, weightDecay, clip }: AdamOptions,
): NamedTensors {
  const scalar = (name: string): Tensor => input(name, [1]);
  const [rate, count] = [scalar('rate'), scalar('count')];
  const [firstCorrection, secondCorrection] = [scalar('firstCorrection'), scalar('secondCorrection')];
  const slots = [...shapes].map(([name, shape]) => {
    const slot = (kind: ParameterSlot): Tensor => input(slotName(kind, name), shape);
    const gradient = divide(slot('gradient'), count);
    return {
      name,
      shape,
      gradient,
      parameter: slot('parameter'),
      mean: slot('mean'),
      square: slot('square'),
    };
  });
  const lengths = slots.map(({ gradient, shape }) => {
    const squares = sum(
      multiply(gradient, gradient),
      shape.map((_, axis) => axis),
    );
    return reshape(squares, [1]);
  });
  const norm = squareRoot(lengths.reduce((left, right) => add(left, right)));
  const scale = minimum(divide(constant(clip), maximum(norm, tiny)), 1);
  const outputs: Record<string, Tensor> = { norm };
  for (const { name, shape, gradient, parameter, mean, square } of slots) {
    const clipped = multiply(gradient, scale);
    const newMean = add(multiply(mean, firstDecay), multiply(clipped, 1 - firstDecay));
    const newSquare = add(
      multiply(square, secondDecay),
      multiply(multiply(clipped, clipped), 1 - secondDecay),
    );
    const step = divide(
      divide(newMean, firstCorrection),
      add(squareRoot(divide(newSquare, secondCorrection)), epsilon),
    );
    const whole = shape.length > 1 && weightDecay > 0 ? add(step, multiply(parameter, weightDecay)) : step;
    outputs[slotName('parameter', name)] = subtract(parameter, multiply(whole, rate));
    outputs[slotName('mean', name)] = newMean;
    outputs[slotName('square', name)] = newSquare;
  }
  return outputs;
}

/** `update` counts from 0. */
export function updateInputs(
  { rate, update, count }: { readonly rate: number; readonly update: number; readonly count: number },
  { firstDecay, secondDecay }: AdamOptions,
): NamedValues {
  const scalar = (value: number) => float32(Float32Array.of(value), [1]);
  return {
    rate: scalar(rate),
    count: scalar(count),
    firstCorrection: scalar(1 - firstDecay ** (update + 1)),
    secondCorrection: scalar(1 - secondDecay ** (update + 1)),
  };
}
