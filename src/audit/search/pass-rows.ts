/**
 * Copies of a sequence per pass: as many as the runtime wants, fewer after the device ran out of memory. Scorers of
 * one run share what was learned.
 */
import { pushAll } from '../../core/vector.js';
import { OutOfMemoryError, type Runtime } from '../../runtime/program.js';
import type { Candidate } from './candidates.js';

/**
 * Groups candidates that first differ from their base at similar positions, to share what precedes. A CPU takes each
 * group as it is; a device gets full passes of few sizes, because it needs many rows and reuses layouts.
 */
const step = 8;

/** Copies that fill a pass of candidates which equal the base before this position. */
export type FullPass = (first: number) => number;

/** Later first edits need fewer rows, so more fit into a pass. */
export function fillPasses(copiesOf: FullPass): FullPass {
  return (first) => {
    const most = copiesOf(first);
    return most < step ? most : Math.floor(most / step) * step;
  };
}

/** `fullPass` is for devices. On a CPU, small groups share more of the base, large groups the cost of a pass. */
export function groupByBeginning(candidates: readonly Candidate[], fullPass?: FullPass): Candidate[][] {
  const sorted = [...candidates].sort((left, right) => left.first - right.first);
  const groups: Candidate[][] = [];
  for (const candidate of sorted) {
    const last = groups.at(-1);
    if (last !== undefined && hasRoom(last, candidate)) last.push(candidate);
    else groups.push([candidate]);
  }
  return groups;

  function hasRoom(group: readonly Candidate[], { first }: Candidate): boolean {
    const own = group[0]!.first;
    if (fullPass !== undefined) return group.length < fullPass(own);
    return own === first || group.length < step;
  }
}

/** Padding results are ignored. */
export function roundCopies(count: number): number {
  return count < step ? count : Math.ceil(count / step) * step;
}

/** Keeps the working memory of a CPU step within some hundred megabytes. */
export const rowsPerBatch = 1536;

export class PassRows {
  private most: number;
  private isNoted = false;

  constructor(
    { rowsPerPass }: Pick<Runtime, 'rowsPerPass'>,
    private readonly onNotice: (message: string) => void = () => undefined,
  ) {
    this.most = rowsPerPass ?? rowsPerBatch;
  }

  countCopies(rows: number): number {
    return Math.max(1, Math.floor(this.most / rows));
  }

  /** Each item has `rows` rows. Halves the batch when memory runs out. */
  async runAll<Item, Result>(
    items: readonly Item[],
    rows: number,
    run: (some: readonly Item[]) => Promise<readonly Result[]>,
  ): Promise<Result[]> {
    const results: Result[] = [];
    for (let start = 0; start < items.length;) {
      const some = items.slice(start, start + this.countCopies(rows));
      try {
        pushAll(results, await run(some));
        start += some.length;
      } catch (cause) {
        if (!(cause instanceof OutOfMemoryError) || some.length === 1) throw cause;
        this.most = rows * Math.ceil(some.length / 2);
        this.note(cause);
      }
    }
    return results;
  }

  private note({ message }: OutOfMemoryError): void {
    if (!this.isNoted) this.onNotice(`${message} The audit goes on with fewer candidates at a time.`);
    this.isNoted = true;
  }
}
