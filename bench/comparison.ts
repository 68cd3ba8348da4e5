/**
 * Speed against another library. A ratio means something only where both sides multiply matrices at a similar rate:
 * against a PyTorch on a slow BLAS any library wins. So the rate of one large product is part of every comparison.
 */
import { input } from '../src/graph/tensor.js';
import { matmul } from '../src/graph/operations/contraction.js';
import { sum } from '../src/graph/operations/reductions.js';
import { type Runtime, float32 } from '../src/runtime/program.js';
import { time } from './stopwatch.js';

export interface Side {
  readonly name: string;
  /** Float32 GFLOP/s on one large matrix product, measured in the same run. */
  readonly gigaflops: number;
}

/** The smaller product rate must be at least this share of the larger. */
const minProductShare = 0.5;

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

/** What this machine can do at most, through the same runtime: bytes read and products made per second. */
interface Peaks {
  readonly gigabytesPerSecond: number;
  readonly gigaflops: number;
}

export async function measurePeaks(runtime: Runtime): Promise<Peaks> {
  const rows = 64;
  const columns = 1 << 20;
  const reader = await runtime.compile({ total: sum(input('x', [rows, columns]), [1]) });
  const large = { x: float32(new Float32Array(rows * columns).fill(1), [rows, columns]) };
  const reading = await time(() => reader.run(large), 8);
  const size = 1024;
  const product = await runtime.compile({
    total: sum(matmul(input('a', [size, size]), input('b', [size, size])), [0, 1]),
  });
  const square = float32(new Float32Array(size * size).fill(0.5), [size, size]);
  const multiplying = await time(() => product.run({ a: square, b: square }), 12);
  return {
    gigabytesPerSecond: (rows * columns * 4) / reading.bestMs / 1e6,
    gigaflops: (2 * size ** 3) / multiplying.bestMs / 1e6,
  };
}
