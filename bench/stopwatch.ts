/** Timing and tables for benchmarks. Tables are printed as they are ready and collected for the result file. */
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

/** The best, and the median in parentheses. */
export function formatTimes(times: readonly number[]): string {
  const [best, middle] = [Math.min(...times), median(times)].map((ms) => ms.toFixed(ms < 20 ? 2 : 0));
  return `${best} (${middle}) ms`;
}

interface RecordedTable {
  readonly title: string;
  readonly columns: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

export interface Recording {
  readonly tables: RecordedTable[];
  readonly notes: string[];
  readonly versions: Record<string, string>;
}

export const recording: Recording = { tables: [], notes: [], versions: {} };

/** The first row is the header. */
export function printTable(rows: readonly (readonly string[])[], title = ''): void {
  const [columns = [], ...body] = rows;
  recording.tables.push({ title, columns, rows: body });
  console.log(`${formatTable({ title, columns, rows: body })}\n`);
}

export function printNote(note: string): void {
  recording.notes.push(note);
  console.log(`${note}\n`);
}

export function formatTable({ title, columns, rows }: RecordedTable): string {
  const lines = [columns, columns.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`);
  return [...(title === '' ? [] : [`${title}\n`]), ...lines].join('\n');
}
