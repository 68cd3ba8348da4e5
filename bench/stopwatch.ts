/** Timing for benchmarks: the best and the median of several runs, because the machines are noisy. */
export interface Timing {
  readonly bestMs: number;
  readonly medianMs: number;
}

export async function time(run: () => Promise<unknown>, repetitions: number, warmups = 2): Promise<Timing> {
  for (let warmup = 0; warmup < warmups; warmup++) await run();
  const times: number[] = [];
  for (let repetition = 0; repetition < repetitions; repetition++) {
    const start = performance.now();
    await run();
    times.push(performance.now() - start);
  }
  return { bestMs: Math.min(...times), medianMs: median(times) };
}

export function median(values: readonly number[]): number {
  return [...values].sort((left, right) => left - right)[Math.floor(values.length / 2)]!;
}

export function printTable(rows: readonly (readonly string[])[]): void {
  const [header, ...body] = rows;
  printRow(header!);
  printRow(header!.map(() => '---'));
  for (const row of body) printRow(row);
}

/** A further one of a table, for benches that may be ended before their last. */
export function printRow(cells: readonly string[]): void {
  console.log(`| ${cells.join(' | ')} |`);
}
