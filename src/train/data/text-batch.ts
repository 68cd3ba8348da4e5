/**
 * Texts as rows of a batch: one text and padding, or several packed texts. A text attends only to itself, and drafts
 * end with their text. Positions continue along a row: rotary attention depends on distances only.
 */
import { blocked } from '../../model/attention-inputs.js';

export interface TextPlace {
  /** Key of its stored states. */
  readonly id: string;
  readonly row: number;
  readonly start: number;
  readonly length: number;
}

export interface TextBatch {
  readonly tokens: Int32Array; // [batch, position]
  /** 1 for tokens in the loss, 0 in prompts and padding. */
  readonly weights: Float32Array; // [batch, position]
  readonly shape: readonly [number, number];
  readonly texts: readonly TextPlace[];
}

/** [batch, position] */
export function positionsInTexts({ shape: [count, length], texts }: TextBatch): Float32Array {
  const positions = new Float32Array(count * length);
  for (const { row, start, length: own } of texts)
    for (let position = 0; position < own; position++) positions[row * length + start + position] = position;
  return positions;
}

/** Added to scores: causal within each text and window. [batch, position, position] */
export function maskTexts({ shape: [count, length], texts }: TextBatch, window = Infinity): Float32Array {
  const mask = new Float32Array(count * length * length).fill(blocked);
  // Padding attends to itself, to avoid NaN.
  for (let at = 0; at < count * length; at++) mask[at * length + (at % length)] = 0;
  for (const { row, start, length: own } of texts)
    for (let position = start; position < start + own; position++) {
      const columns = (row * length + position) * length;
      mask.fill(0, columns + Math.max(start, position - window + 1), columns + position + 1);
    }
  return mask;
}
