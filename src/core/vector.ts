/**
 * Numerics over one row of scores. Ties always go to the lowest index, so that every caller ranks alike.
 * Scores may be -Infinity (a masked token) but not NaN.
 */

/** [vocabulary] -> index of the largest value. */
export function argmax(values: ArrayLike<number>): number {
  let best = 0;
  let bestValue = -Infinity;
  for (let index = 0; index < values.length; index++) {
    const value = values[index]!;
    if (value > bestValue) {
      bestValue = value;
      best = index;
    }
  }
  return best;
}

/**
 * Indexes of the `count` largest values, best first; all of them when there are fewer.
 * A heap of the best so far, with the worst of them at its root: O(n log count), and for scores in no special order
 * nearly all of the n are dismissed by one comparison with the root.
 */
export function topIndices(values: ArrayLike<number>, count: number): Int32Array {
  const size = Math.max(0, Math.min(count, values.length));
  const heap = new Int32Array(size);
  if (size === 0) return heap;
  for (let index = 0; index < size; index++) heap[index] = index;
  for (let slot = (size >> 1) - 1; slot >= 0; slot--) siftDown(heap, slot, size, values);

  let worstKept = values[heap[0]!]!;
  for (let index = size; index < values.length; index++) {
    if (values[index]! > worstKept) {
      heap[0] = index;
      siftDown(heap, 0, size, values);
      worstKept = values[heap[0]]!;
    }
  }

  for (let end = size - 1; end > 0; end--) {
    const worst = heap[0]!;
    heap[0] = heap[end]!;
    heap[end] = worst;
    siftDown(heap, 0, end, values);
  }
  return heap;
}

function siftDown(heap: Int32Array, start: number, size: number, values: ArrayLike<number>): void {
  const moving = heap[start]!;
  let slot = start;
  for (;;) {
    let child = 2 * slot + 1;
    if (child >= size) break;
    if (child + 1 < size && isWorse(heap[child + 1]!, heap[child]!, values)) child++;
    if (!isWorse(heap[child]!, moving, values)) break;
    heap[slot] = heap[child]!;
    slot = child;
  }
  heap[slot] = moving;
}

function isWorse(left: number, right: number, values: ArrayLike<number>): boolean {
  const leftValue = values[left]!;
  const rightValue = values[right]!;
  return leftValue < rightValue || (leftValue === rightValue && left > right);
}

export function sum(values: ArrayLike<number>): number {
  const { length } = values; // indexed, because for-of over a typed array is many times slower
  let total = 0;
  for (let index = 0; index < length; index++) total += values[index]!;
  return total;
}

/** log of the sum of exponentials; -Infinity for an empty or fully masked row. */
export function logSumExp(values: ArrayLike<number>): number {
  const largest = values.length === 0 ? -Infinity : values[argmax(values)]!;
  if (largest === -Infinity) return -Infinity;
  const { length } = values;
  let total = 0;
  for (let index = 0; index < length; index++) total += Math.exp(values[index]! - largest);
  return largest + Math.log(total);
}

/** softmax(logits / temperature) written to `out`, which may be `logits` itself. */
export function softmaxInto(logits: Float32Array, out: Float32Array, temperature = 1): Float32Array {
  const largest = logits[argmax(logits)]!;
  let total = 0;
  for (let index = 0; index < logits.length; index++) {
    const weight = Math.exp((logits[index]! - largest) / temperature);
    out[index] = weight;
    total += weight;
  }
  const scale = 1 / total;
  for (let index = 0; index < out.length; index++) out[index] = out[index]! * scale;
  return out;
}

/**
 * Lists whose length depends on data. Spread as arguments (`Math.max(...values)`), a hundred thousand values end the
 * stack of the main thread and fewer that of a worker.
 */

/** Like Math.max, NaN included. */
export function largest(values: Iterable<number>, least = -Infinity): number {
  let found = least;
  for (const value of values) found = Math.max(found, value);
  return found;
}

/** Like Math.min, NaN included. */
export function smallest(values: Iterable<number>, most = Infinity): number {
  let found = most;
  for (const value of values) found = Math.min(found, value);
  return found;
}

/** The mean of the two middle values if their number is even. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((left, right) => left - right);
  const middle = (sorted.length - 1) / 2;
  return (sorted[Math.floor(middle)]! + sorted[Math.ceil(middle)]!) / 2;
}

export function pushAll<Item>(list: Item[], items: Iterable<Item>): void {
  for (const item of items) list.push(item);
}

/** Levenshtein distance. */
export function editDistance(left: ArrayLike<unknown>, right: ArrayLike<unknown>): number {
  let previous = Uint32Array.from({ length: right.length + 1 }, (_, column) => column);
  let current = new Uint32Array(right.length + 1);
  for (let row = 1; row <= left.length; row++) {
    current[0] = row;
    for (let column = 1; column <= right.length; column++) {
      const replaced = previous[column - 1]! + (left[row - 1] === right[column - 1] ? 0 : 1);
      current[column] = Math.min(replaced, previous[column]! + 1, current[column - 1]! + 1);
    }
    [previous, current] = [current, previous];
  }
  return previous[right.length]!;
}

/** [row, width] -> [row] -> [width] */
export function splitRows(rows: Float32Array, width: number): readonly Float32Array[] {
  return Array.from({ length: rows.length / width }, (_, row) =>
    rows.subarray(row * width, (row + 1) * width),
  );
}
