/**
 * Values that stay in the runtime: keys and values, features, parameters. A matrix of float32 rows that programs read
 * and write in place; rows move between buffers without passing through the host. Operations take effect in order.
 */
import { MistletoeError } from '../core/errors.js';
import { keepArray, takeArray } from './spare-arrays.js';

export interface RowBuffer {
  readonly rowCount: number;
  readonly width: number;
  /** Shares memory. */
  rows(from: number, count: number): RowBuffer;
  /** Shares memory. */
  withWidth(width: number): RowBuffer;
  /** The source must not overlap. */
  write(values: Float32Array | RowBuffer, at?: number): void;
  /** Row places[i] becomes row picks[i] of another buffer. */
  copyRows(source: RowBuffer, picks: ArrayLike<number>, places: ArrayLike<number>): void;
  copyBlocks(source: RowBuffer, blocks: RowBlocks): void;
  read(): Promise<Float32Array>;
  /** Returns the memory at once; unused buffers are also collected eventually. */
  free(): void;
}

/** Blocks of rows of another buffer, at regular distances in both. */
export interface RowBlocks {
  readonly count: number;
  readonly rows: number;
  /** The first row of the first block, and from block to block. */
  readonly from: number;
  readonly fromStep: number;
  readonly to: number;
  readonly toStep: number;
  /** From row to row of a block. */
  readonly fromRowStep: number;
  readonly toRowStep: number;
}

export function requireWidth({ width }: Pick<RowBuffer, 'width'>, source: Pick<RowBuffer, 'width'>): void {
  if (source.width === width) return;
  throw new MistletoeError('shape', `Rows of ${source.width} values were copied to rows of ${width}.`);
}

/** All rows lie between the first and the last. */
export function requireBlocks(
  target: Pick<RowBuffer, 'rowCount' | 'width'>,
  source: Pick<RowBuffer, 'rowCount' | 'width'>,
  { count, rows, from, to, ...steps }: RowBlocks,
): void {
  requireWidth(target, source);
  const spanOf = (step: number, rowStep: number): number => (count - 1) * step + (rows - 1) * rowStep + 1;
  requireRows(source, from, spanOf(steps.fromStep, steps.fromRowStep));
  requireRows(target, to, spanOf(steps.toStep, steps.toRowStep));
}

export class HostRows implements RowBuffer {
  readonly rowCount: number;

  constructor(
    readonly data: Float32Array,
    readonly width: number,
    /** Takes the memory back from the first of all views that is freed; by default it is garbage-collected. */
    private readonly giveBack?: () => void,
  ) {
    this.rowCount = countRows(data.length, width);
  }

  rows(from: number, count: number): HostRows {
    requireRows(this, from, count);
    const data = this.data.subarray(from * this.width, (from + count) * this.width);
    return new HostRows(data, this.width, this.giveBack);
  }

  withWidth(width: number): HostRows {
    return new HostRows(this.data, width, this.giveBack);
  }

  write(values: Float32Array | RowBuffer, at = 0): void {
    const data = values instanceof Float32Array ? values : hostDataOf(values);
    requireRows(this, at, data.length / this.width);
    this.data.set(data, at * this.width);
  }

  copyRows(source: RowBuffer, picks: ArrayLike<number>, places: ArrayLike<number>): void {
    const { data, width } = this;
    const from = hostDataOf(source);
    requireWidth(this, source);
    for (let index = 0; index < picks.length;) {
      const [pick, place] = [picks[index]!, places[index]!];
      // Copy adjacent rows as one piece.
      let run = 1;
      while (
        index + run < picks.length &&
        picks[index + run] === pick + run &&
        places[index + run] === place + run
      )
        run += 1;
      requireRows(this, place, run);
      copyValues(from, pick * width, data, place * width, run * width);
      index += run;
    }
  }

  copyBlocks(source: RowBuffer, blocks: RowBlocks): void {
    const { count, rows, from, fromStep, fromRowStep, to, toStep, toRowStep } = blocks;
    if (count === 0 || rows === 0) return;
    requireBlocks(this, source, blocks);
    const { data, width } = this;
    const values = hostDataOf(source);
    const together = fromRowStep === 1 && toRowStep === 1 ? rows : 1;
    for (let block = 0; block < count; block++)
      for (let row = 0; row < rows; row += together) {
        const [start, at] = [
          from + block * fromStep + row * fromRowStep,
          to + block * toStep + row * toRowStep,
        ];
        copyValues(values, start * width, data, at * width, together * width);
      }
  }

  read(): Promise<Float32Array> {
    return Promise.resolve(this.data.slice());
  }

  free(): void {
    this.giveBack?.();
  }
}

/** Views cost more than a few values. */
const fewValues = 128;

function copyValues(from: Float32Array, start: number, to: Float32Array, at: number, count: number): void {
  if (count > fewValues) to.set(from.subarray(start, start + count), at);
  else for (let index = 0; index < count; index++) to[at + index] = from[start + index]!;
}

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
  const data = takeArray(rowCount * width).fill(0);
  return new HostRows(data, width, givesBackOnce(data));
}

/** Views are freed, too. */
export function givesBackOnce(values: Float32Array, giveBack = keepArray): () => void {
  let isDone = false;
  return () => {
    if (!isDone) giveBack(values);
    isDone = true;
  };
}

/** In place; device buffers have none. */
export function hostDataOf(buffer: RowBuffer): Float32Array {
  if (buffer instanceof HostRows) return buffer.data;
  throw new MistletoeError('runtime', 'A buffer was used with another runtime than the one that made it.', {
    hint: 'Load target and drafter with one and the same runtime.',
  });
}
