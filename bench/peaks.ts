/** What this machine can do at most, measured through the same runtime: bytes read and products made per second. */
import { input } from '../src/graph/tensor.js';
import { matmul } from '../src/graph/operations/contraction.js';
import { sum } from '../src/graph/operations/reductions.js';
import { type Runtime, float32 } from '../src/runtime/program.js';
import { time } from './stopwatch.js';

export interface Peaks {
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
