/**
 * How many copies of a sequence one pass takes: as many as the runtime wants, and fewer once its device had no room for
 * them. Scorers of one run share what was learned.
 */
import { pushAll } from '../core/long-lists.js';
import { OutOfMemoryError } from '../runtime/device-failures.js';
import type { Runtime } from '../runtime/program.js';

/** Rows of one pass that keep the working memory of a step on a CPU within some hundred megabytes. */
export const rowsPerBatch = 1536;

export class PassRows {
  /** Of one pass. */
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

  /** What `run` makes of all items, each of which is a copy of so many rows, some at a time. */
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
