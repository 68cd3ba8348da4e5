/**
 * Where a value stands among weighted ones: 0 below all, 1 above all, and for a further value from the same place one half
 * on average, whatever the distribution. Half of what is equal counts as below, and half of the value itself.
 */
export interface Weighted {
  readonly value: number;
  readonly weight: number;
}

export class RankTable {
  private readonly values: Float64Array;
  /** [index] weight of all values before it. */
  private readonly before: Float64Array;

  constructor(weighted: readonly Weighted[]) {
    const sorted = [...weighted].sort((left, right) => left.value - right.value);
    this.values = Float64Array.from(sorted, ({ value }) => value);
    this.before = new Float64Array(sorted.length + 1);
    for (const [index, { weight }] of sorted.entries()) this.before[index + 1] = this.before[index]! + weight;
  }

  rank(value: number): number {
    const below = this.before[this.count((other) => other < value)]!;
    const notAbove = this.before[this.count((other) => other <= value)]!;
    return ((below + notAbove) / 2 + 0.5) / (this.before.at(-1)! + 1);
  }

  /** How many of the values, from the lowest on, are so. */
  private count(isSo: (value: number) => boolean): number {
    let low = 0;
    let high = this.values.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (isSo(this.values[middle]!)) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
