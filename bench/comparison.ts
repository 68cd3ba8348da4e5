/**
 * Speed against another library. A ratio means something only where both sides multiply matrices at a similar rate:
 * against a PyTorch on a slow BLAS any library wins. So the rate of one large product is part of every comparison.
 */
import { multiply } from '../src/graph/operations/elementwise.js';
import { matmul } from '../src/graph/operations/contraction.js';
import { sum } from '../src/graph/operations/reductions.js';
import { input, weight } from '../src/graph/tensor.js';
import type { CausalModel } from '../src/model/causal-model.js';
import { type Runtime, float32 } from '../src/runtime/program.js';
import { formatTimes, printNote, printTable, time } from './stopwatch.js';
import { startTorch } from './torch-process.js';

export interface Side {
  readonly name: string;
  /** GFLOP/s on one large matrix product, measured in the same run. */
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
  const remedy =
    other.gigaflops < own.gigaflops
      ? 'For PyTorch from Debian, install libopenblas0-pthread.'
      : 'Run it again on a quiet machine.';
  return `${sentence} No ratios: one side reaches less than half of the other's rate. ${remedy}`;
}

/** GFLOP/s of one large product of two weights, in the type that the runtime multiplies in. */
export async function measureProduct(runtime: Runtime): Promise<number> {
  const size = runtime.name === 'onnx' ? 1024 : 8192;
  const shape = [size, size];
  const values = { shape, data: Float32Array.from({ length: size * size }, (_, at) => Math.sin(at)) };
  const tensors = new Map([
    ['left', values],
    ['right', values],
  ]);
  // The scale is an input, so that nothing can be computed ahead of the run.
  const product = matmul(multiply(weight('left', shape), input('scale', [])), weight('right', shape));
  // A sum of all would take longer than the product: it has a single block of a GPU.
  const program = await runtime.compile({ totals: sum(product, [1]) }, [{ kind: 'memory', tensors }]);
  const scale = float32(Float32Array.of(1), []);
  const { bestMs } = await time(() => program.run({ scale }), 12);
  await program.dispose();
  return (2 * size ** 3) / bestMs / 1e6;
}

/** As PyTorch's scripts name them. */
export function sizesOf({ configuration }: CausalModel) {
  return {
    hidden: configuration.hiddenSize,
    inner: configuration.intermediateSize,
    layers: configuration.layerCount,
    heads: configuration.headCount,
    vocabulary: configuration.vocabularySize,
  };
}

interface Comparison {
  readonly title: string;
  readonly runtime: Runtime;
  readonly turns: number;
  /** By PyTorch's names for the same parts. */
  readonly parts: Readonly<Record<string, () => Promise<unknown>>>;
  /** Adds a row of this name for all parts together. */
  readonly whole?: string;
  /** In bench/torch. */
  readonly script: string;
  readonly settings: object;
}

/** Runs the parts in turns with PyTorch's, after a first turn that warms both sides up. Returns PyTorch's losses. */
export async function compareWithTorch(comparison: Comparison): Promise<readonly number[]> {
  const { title, runtime, turns, parts, whole, script, settings } = comparison;
  const own = { name: 'Mistletoe', gigaflops: await measureProduct(runtime) };
  const torch = await startTorch(script, settings);
  const rows = Object.entries(parts).map(([name, run]) => ({ name, run, ours: [0], theirs: [0] }));
  const losses: number[] = [];
  for (let turn = 0; turn <= turns; turn++)
    for (const { name, run, ours, theirs } of rows) {
      const start = performance.now();
      await run();
      ours[turn] = performance.now() - start;
      const other = await torch?.run(name);
      if (other !== undefined) theirs[turn] = other.ms;
      if (other?.loss !== undefined) losses.push(other.loss);
    }
  torch?.end();
  const table = [['best (median)', 'Mistletoe', torch?.name ?? 'PyTorch', 'speed against PyTorch']];
  const addRow = (name: string, ours: readonly number[], theirs: readonly number[]): void => {
    const cells = [name, formatTimes(ours.slice(1))];
    if (torch === undefined) table.push([...cells, '', '']);
    else {
      const ratio = formatSpeedup(own, Math.min(...ours.slice(1)), torch, Math.min(...theirs.slice(1)));
      table.push([...cells, formatTimes(theirs.slice(1)), ratio]);
    }
  };
  for (const { name, ours, theirs } of rows) addRow(name, ours, theirs);
  const addUp = (side: 'ours' | 'theirs'): number[] =>
    rows[0]![side].map((_, turn) => rows.reduce((ms, row) => ms + row[side][turn]!, 0));
  if (whole !== undefined) addRow(whole, addUp('ours'), addUp('theirs'));
  printTable(table, `${title}, ${turns} turns`);
  if (torch !== undefined) printNote(describeProducts(own, torch));
  return losses;
}
