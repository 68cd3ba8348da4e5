/**
 * Speed against another library. A ratio means something only where both sides multiply matrices at a similar rate:
 * against a PyTorch on a slow BLAS any library wins. So the rate of one large product is part of every comparison.
 */
export interface Side {
  readonly name: string;
  /** Float32 GFLOP/s on one large matrix product, measured in the same run. */
  readonly gigaflops: number;
}

/** The smaller product rate must be at least this share of the larger. */
export const minProductShare = 0.5;

/** Whether times of the two sides may be compared. */
export function isComparable(left: Side, right: Side): boolean {
  const [low, high] = [Math.min(left.gigaflops, right.gigaflops), Math.max(left.gigaflops, right.gigaflops)];
  return low > 0 && Number.isFinite(high) && low / high >= minProductShare;
}

/** How many times as fast `own` is, for a table cell; a dash where the two must not be compared. */
export function formatSpeedup(own: Side, ownMs: number, other: Side, otherMs: number): string {
  return isComparable(own, other) ? `${(otherMs / ownMs).toFixed(2)}x` : '–';
}

/** The product rates, and why ratios are missing if they are. */
export function describeProducts(own: Side, other: Side): string {
  const rates = [own, other].map(({ name, gigaflops }) => `${name} ${gigaflops.toFixed(0)} GFLOP/s`);
  const sentence = `One large matrix product: ${rates.join(', ')}.`;
  if (isComparable(own, other)) return sentence;
  return `${sentence} No ratios: one side reaches less than half of the other's rate. For PyTorch from Debian, install libopenblas0-pthread.`;
}
