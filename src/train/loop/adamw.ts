/**
 * AdamW with decoupled weight decay (Loshchilov and Hutter, arXiv 1711.05101) as one graph over all parameters.
 * Gradients are first divided by their count and clipped by their common norm.
 * m <- b1 m + (1 - b1) g, v <- b2 v + (1 - b2) g^2
 * p <- p - rate (m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + epsilon) + decay p)
 * Only matrices decay, not norms and biases.
 */
import { MistletoeError } from '../../core/errors.js';
import {
  add,
  divide,
  maximum,
  minimum,
  multiply,
  reciprocalSquareRoot,
  subtract,
} from '../../graph/operations/elementwise.js';
import { constant, input, type Tensor } from '../../graph/tensor.js';
import { sum } from '../../graph/operations/reductions.js';
import { reshape } from '../../graph/operations/shaping.js';
import type {
  Destination,
  NamedTensors,
  NamedValues,
  ResidentValue,
  Runtime,
} from '../../runtime/program.js';
import { float32, resident } from '../../runtime/program.js';
import type { RowBuffer } from '../../runtime/row-buffer.js';

export type ParameterSlot = 'parameter' | 'gradient' | 'mean' | 'square';

export interface ParameterValues {
  readonly shape: readonly number[];
  readonly data: Float32Array;
}

export const slotName = (slot: ParameterSlot, name: string): string => `${slot}.${name}`;

/** The state that the next update depends on; gradients start at 0. */
export const keptSlots = ['parameter', 'mean', 'square'] as const satisfies readonly ParameterSlot[];
export const allSlots = [...keptSlots, 'gradient'] as const;

/**
 * Per parameter its values, summed gradients and AdamW's two moments, in buffers of the runtime. Programs read and
 * update them in place, by the names from slotName.
 */
export class ParameterBuffers {
  private readonly buffers = new Map<string, RowBuffer>(); // [slotName]

  constructor(
    runtime: Runtime,
    readonly shapes: ReadonlyMap<string, readonly number[]>,
  ) {
    for (const [name, shape] of shapes) {
      const width = shape.at(-1) ?? 1;
      for (const slot of allSlots)
        this.buffers.set(slotName(slot, name), runtime.allocate(countValues(shape) / width, width));
    }
  }

  residents(slots: readonly ParameterSlot[]): Readonly<Record<string, ResidentValue>> {
    return Object.fromEntries(
      this.list(slots).map(({ key, shape, buffer }) => [key, resident(buffer, shape)]),
    );
  }

  destinations(slots: readonly ParameterSlot[]): Readonly<Record<string, Destination>> {
    return Object.fromEntries(this.list(slots).map(({ key, buffer }) => [key, buffer]));
  }

  clearGradients(): void {
    for (const { buffer } of this.list(['gradient']))
      buffer.write(new Float32Array(buffer.rowCount * buffer.width));
  }

  async read(slots: readonly ParameterSlot[] = keptSlots): Promise<ReadonlyMap<string, Float32Array>> {
    const values = new Map<string, Float32Array>();
    for (const { key, buffer } of this.list(slots)) values.set(key, await buffer.read());
    return values;
  }

  restore(values: ReadonlyMap<string, Float32Array>): void {
    const missing = this.list(keptSlots).find(({ key }) => !values.has(key));
    if (missing !== undefined) {
      throw new MistletoeError('checkpoint', `The saved state has no values for "${missing.key}".`, {
        hint: 'It is the state of another drafter: begin a new run.',
      });
    }
    this.write(values);
  }

  write(values: ReadonlyMap<string, Float32Array>): void {
    for (const [key, data] of values) {
      const buffer = this.buffers.get(key);
      if (buffer?.rowCount !== data.length / (buffer?.width ?? 1)) {
        throw new MistletoeError(
          'checkpoint',
          `The saved state has ${data.length} values for "${key}", which this drafter does not have in that size.`,
          { hint: 'It is the state of another drafter: begin a new run.' },
        );
      }
      buffer.write(data);
    }
  }

  free(): void {
    for (const buffer of this.buffers.values()) buffer.free();
  }

  private list(slots: readonly ParameterSlot[]) {
    return [...this.shapes].flatMap(([name, shape]) =>
      slots.map((slot) => {
        const key = slotName(slot, name);
        return { key, shape, buffer: this.buffers.get(key)! };
      }),
    );
  }
}

export const countValues = (shape: readonly number[]): number =>
  shape.reduce((product, size) => product * size, 1);

export interface AdamOptions {
  readonly firstDecay: number; // b1
  readonly secondDecay: number; // b2
  readonly epsilon: number;
  readonly weightDecay: number;
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
