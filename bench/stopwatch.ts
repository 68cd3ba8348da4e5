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
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  console.log(line(header!));
  console.log(line(header!.map(() => '---')));
  for (const row of body) console.log(line(row));
}
