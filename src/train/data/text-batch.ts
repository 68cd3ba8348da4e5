/**
 * Texts as rows of a batch. A row has one text and padding behind it, or, where rows are packed, several texts one behind
 * the other: each sees itself alone, and no draft of one is about a token of the next. Positions go on counting along a
 * row, since rotary attention sees nothing of them but how far apart two are.
 */
import { blocked } from '../../model/attention-inputs.js';

/** Where a text stands in a batch. */
export interface TextPlace {
  /** Key of its stored states. */
  readonly id: string;
  readonly row: number;
  /** Position of its first token in the row. */
  readonly start: number;
  readonly length: number;
}

export interface TextBatch {
  /** Zeros in padding. */
  readonly tokens: Int32Array; // [batch, position]
  /** 1 for tokens in the loss, 0 in prompts and padding. */
  readonly weights: Float32Array; // [batch, position]
  readonly shape: readonly [number, number];
  readonly texts: readonly TextPlace[];
}

/** Position of each token in its own text. [batch, position] */
export function positionsInTexts({ shape: [count, length], texts }: TextBatch): Float32Array {
  const positions = new Float32Array(count * length);
  for (const { row, start, length: own } of texts)
    for (let position = 0; position < own; position++) positions[row * length + start + position] = position;
  return positions;
}

/** Added to scores: each token sees itself and what comes before it in its text, within a window. [batch, position, position] */
export function maskTexts({ shape: [count, length], texts }: TextBatch, window = Infinity): Float32Array {
  const mask = new Float32Array(count * length * length).fill(blocked);
  // Padding attends to itself: its output is never read, but must not be NaN.
  for (let at = 0; at < count * length; at++) mask[at * length + (at % length)] = 0;
  for (const { row, start, length: own } of texts)
    for (let position = start; position < start + own; position++) {
      const columns = (row * length + position) * length;
      mask.fill(0, columns + Math.max(start, position - window + 1), columns + position + 1);
    }
  return mask;
}
