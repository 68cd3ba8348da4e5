/** A test on the way: whether a mean that is still being measured will clearly end above a bound. */
const fewestValues = 16;
const standardErrors = 1.5;

/** Not a proof: one look in some fifteen takes a mean that lies exactly at the bound for one above it. */
export function isClearlyAbove(values: readonly number[], bound: number): boolean {
  const count = values.length;
  if (count < fewestValues) return false;
  const mean = values.reduce((sum, value) => sum + value, 0) / count;
  const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (count - 1);
  return mean - standardErrors * Math.sqrt(variance / count) > bound;
}
