/**
 * Pearson's goodness of fit, for seeded tests. The result is the statistic over its critical value at one in ten
 * thousand (Wilson and Hilferty's approximation), so a fair sample stays below 1. Cells expected fewer than five
 * times are pooled: a single hit in a nearly empty cell would outweigh all the others. A hit in an impossible cell is
 * never fair.
 */
const LEAST_EXPECTED = 5;

export function chiSquareExcess(
  observed: Int32Array | readonly number[],
  expected: readonly number[],
): number {
  const total = Array.from(observed).reduce((left, right) => left + right, 0);
  const rare = { mean: 0, count: 0 };
  const cells: { mean: number; count: number }[] = [];
  for (const [index, probability] of expected.entries()) {
    const count = observed[index]!;
    const mean = probability * total;
    if (mean === 0 && count > 0) return Infinity;
    if (mean >= LEAST_EXPECTED) {
      cells.push({ mean, count });
    } else {
      rare.mean += mean;
      rare.count += count;
    }
  }
  if (rare.mean >= LEAST_EXPECTED) {
    cells.push(rare);
  } else if (cells.length > 0) {
    const last = cells.at(-1)!;
    cells[cells.length - 1] = { mean: last.mean + rare.mean, count: last.count + rare.count };
  }
  if (cells.length < 2) throw new Error(`${total} draws are too few to test ${expected.length} cells.`);
  const degrees = cells.length - 1;
  const statistic = cells.reduce((left, { mean, count }) => left + (count - mean) ** 2 / mean, 0);
  const spread = 2 / (9 * degrees);
  return statistic / (degrees * (1 - spread + 3.719 * Math.sqrt(spread)) ** 3);
}

export function uniformDistribution(cells: number): number[] {
  return Array.from({ length: cells }, () => 1 / cells);
}
