/**
 * Values that stay where a runtime computes: keys and values, features, taps, parameters. A buffer is a matrix of
 * float32 rows. Programs read it in place and can leave outputs in it, and what moves from one buffer to another moves
 * row by row without passing through the host: code above the runtime does not know whether a row lies in the host's
 * memory or in that of a device. Runs, copies and writes take effect in the order in which they were asked for.
 */
import { MistletoeError } from '../core/errors.js';

export interface RowBuffer {
  readonly rowCount: number;
  readonly width: number;
  /** `count` rows from row `from` on, in the same memory. */
  rows(from: number, count: number): RowBuffer;
  /** The same memory as rows of another width. */
  withWidth(width: number): RowBuffer;
  /** Overwrites rows from row `at` on; values of a buffer must not lie in the rows that are overwritten. */
  write(values: Float32Array | RowBuffer, at?: number): void;
  /** Overwrites row places[i] by row picks[i] of a buffer of the same width that does not overlap this one. */
  copyRows(source: RowBuffer, picks: ArrayLike<number>, places: ArrayLike<number>): void;
  read(): Promise<Float32Array>;
  /** Gives the memory back at once. What nobody holds any more is given back without it, sometime. */
  free(): void;
}

/** Rows in the host's memory, for runtimes that compute there. */
export class HostRows implements RowBuffer {
  readonly rowCount: number;

  constructor(
    readonly data: Float32Array,
    readonly width: number,
  ) {
    this.rowCount = countRows(data.length, width);
  }

  rows(from: number, count: number): HostRows {
    requireRows(this, from, count);
    return new HostRows(this.data.subarray(from * this.width, (from + count) * this.width), this.width);
  }

  withWidth(width: number): HostRows {
    return new HostRows(this.data, width);
  }

  write(values: Float32Array | RowBuffer, at = 0): void {
    const data = values instanceof Float32Array ? values : hostDataOf(values);
    requireRows(this, at, data.length / this.width);
    this.data.set(data, at * this.width);
  }

  copyRows(source: RowBuffer, picks: ArrayLike<number>, places: ArrayLike<number>): void {
    const { data, width } = this;
    const from = hostDataOf(source);
    if (source.width !== width) {
      throw new MistletoeError('shape', `Rows of ${source.width} values were copied to rows of ${width}.`);
    }
    for (let index = 0; index < picks.length;) {
      const [pick, place] = [picks[index]!, places[index]!];
      // Rows that follow each other on both sides are copied as one piece.
      let run = 1;
      while (
        index + run < picks.length &&
        picks[index + run] === pick + run &&
        places[index + run] === place + run
      )
        run += 1;
      requireRows(this, place, run);
      data.set(from.subarray(pick * width, (pick + run) * width), place * width);
      index += run;
    }
  }

  read(): Promise<Float32Array> {
    return Promise.resolve(this.data.slice());
  }

  free(): void {
    // The collector does.
  }
}

/** How many rows so many values are. */
export function countRows(values: number, width: number): number {
  const rows = width === 0 ? 0 : values / width;
  if (Number.isInteger(rows)) return rows;
  throw new MistletoeError('shape', `${values} values cannot be parted into rows of ${width}.`);
}

export function requireRows({ rowCount }: Pick<RowBuffer, 'rowCount'>, from: number, count: number): void {
  if (from >= 0 && from + count <= rowCount) return;
  throw new MistletoeError(
    'shape',
    `Rows ${from} to ${from + count} were asked for in a buffer of ${rowCount}.`,
  );
}

export function allocateHostRows(rowCount: number, width: number): HostRows {
  return new HostRows(new Float32Array(rowCount * width), width);
}

/** The values themselves, in place; a buffer of a device has none here. */
export function hostDataOf(buffer: RowBuffer): Float32Array {
  if (buffer instanceof HostRows) return buffer.data;
  throw new MistletoeError('runtime', 'A buffer was used with another runtime than the one that made it.', {
    hint: 'Load target and drafter with one and the same runtime.',
  });
}
