/**
 * Pearson's goodness of fit, for seeded tests. `excess` is the statistic over its critical value at one in ten
 * thousand, so a fair sample stays below 1; the critical value is Wilson and Hilferty's approximation.
 */
export function chiSquareExcess(
  observed: Int32Array | readonly number[],
  expected: readonly number[],
): number {
  const total = Array.from(observed).reduce((left, right) => left + right, 0);
  let statistic = 0;
  let degrees = -1;
  for (let cell = 0; cell < observed.length; cell++) {
    const mean = expected[cell]! * total;
    if (mean === 0) {
      if (observed[cell] !== 0) return Infinity;
      continue;
    }
    statistic += (observed[cell]! - mean) ** 2 / mean;
    degrees++;
  }
  const spread = 2 / (9 * degrees);
  return statistic / (degrees * (1 - spread + 3.719 * Math.sqrt(spread)) ** 3);
}

export function uniformLaw(cells: number): number[] {
  return Array.from({ length: cells }, () => 1 / cells);
}
