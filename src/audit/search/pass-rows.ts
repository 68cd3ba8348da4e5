/**
 * How many copies of a sequence one pass takes: as many as the runtime wants, and fewer once its device had no room for
 * them. Scorers of one run share what was learned.
 */
import { pushAll } from '../../core/long-lists.js';
import { OutOfMemoryError } from '../../runtime/device-failures.js';
import type { Runtime } from '../../runtime/program.js';
import type { Candidate } from './candidates.js';

/**
 * Candidates that are scored together. Those that first differ from their base at about the same position share what
 * stands before it. A processor takes every such group as it is; a device takes full passes of few sizes, because it
 * needs many rows to be busy, and what was laid out for the lengths of one pass serves the next of the same lengths.
 */
/** Batch sizes on a device are multiples of this. */
const step = 8;

/** Candidates in a group: small groups share more of the base, large groups share the cost of a pass. */
interface GroupSize {
  readonly fewest: number;
  /** Max candidates if all first differ at the same position. */
  readonly most: number;
}

/** The size of a group whose candidates equal the base before this position. */
export type SizeGroup = (first: number) => GroupSize;

export const processorGroups: SizeGroup = () => ({ fewest: 8, most: Infinity });

/** Full passes: the later a candidate's first edit, the fewer rows it needs and the more fit into a pass. */
export function fillPasses(copiesOf: (first: number) => number): SizeGroup {
  return (first) => {
    const most = copiesOf(first);
    const full = most < step ? most : Math.floor(most / step) * step;
    return { fewest: full, most: full };
  };
}

/** Groups candidates whose first edits are close together, so that few rows are computed again. */
export function groupByBeginning(candidates: readonly Candidate[], sizeOf: SizeGroup): Candidate[][] {
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
    const { fewest, most } = sizeOf(own);
    return group.length < (own === first ? Math.max(fewest, most) : fewest);
  }
}

/** The batch size of a device's pass for `count` candidates; results of the padding are ignored. */
export function roundCopies(count: number): number {
  return count < step ? count : Math.ceil(count / step) * step;
}

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

  /** Runs all items in batches that fit into a pass; each item has `rows` rows. Halves the batch when memory runs out. */
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
