/** Verified rows that a drafter has not read yet, in a buffer that grows by doubling. */
import { subtractDimensions, type Dimension } from '../../graph/dimension.js';
import { slice } from '../../graph/operations/shaping.js';
import type { Tensor } from '../../graph/tensor.js';
import { pickRows, type Runtime } from '../../runtime/program.js';
import type { VerifiedTokens } from '../drafter.js';
import type { RowBuffer } from '../../runtime/row-buffer.js';

/** Shift along the position axis [batch, position, ...]. */
export function dropFirst(x: Tensor, count: Dimension): Tensor {
  return count === 0 ? x : slice(x, 1, count);
}

export function dropLast(x: Tensor, count: number): Tensor {
  return count === 0 ? x : slice(x, 1, 0, subtractDimensions(x.shape[1]!, count));
}

export class PendingStates {
  private states: RowBuffer;
  private first = 0;
  private nextTokens: number[] = [];

  /** `width`: 0 for tokens only. */
  constructor(
    private readonly runtime: Runtime,
    private readonly width: number,
  ) {
    this.states = runtime.allocate(0, width);
  }

  get count(): number {
    return this.nextTokens.length;
  }

  push({ tokens, states, next }: VerifiedTokens): void {
    if (tokens.length === 0) return;
    if (states !== undefined && this.width > 0) {
      this.reserve(tokens.length);
      this.states.write(states.rows(0, tokens.length), this.first + this.count);
    }
    for (let row = 1; row < tokens.length; row++) this.nextTokens.push(tokens[row]!);
    this.nextTokens.push(next);
  }

  /** Without states: keeps the first `kept` tokens and adds these. */
  replaceTokens(kept: number, tokens: readonly number[]): void {
    this.nextTokens = [...this.nextTokens.slice(0, kept), ...tokens];
  }

  /** Passes the rows on in chunks, oldest first; the newest `leave` rows stay. */
  async drain(
    chunk: number,
    visit: (states: RowBuffer, nextTokens: Int32Array) => Promise<void>,
    leave = 0,
  ): Promise<void> {
    const drained = this.count - leave;
    for (let start = 0; start < drained; start += chunk) {
      const end = Math.min(drained, start + chunk);
      const states = this.width === 0 ? this.states : this.states.rows(this.first + start, end - start);
      await visit(states, Int32Array.from(this.nextTokens.slice(start, end)));
    }
    if (drained <= 0) return;
    this.nextTokens = this.nextTokens.slice(drained);
    this.first = this.count === 0 ? 0 : this.first + drained;
  }

  takeLast(): RowBuffer {
    const last = pickRows(this.runtime, this.states, [this.first + this.count - 1]);
    this.nextTokens = [];
    this.first = 0;
    return last;
  }

  close(): void {
    this.states.free();
  }

  private reserve(rows: number): void {
    const needed = this.count + rows;
    if (this.first + needed <= this.states.rowCount) return;
    const old = this.states;
    this.states = this.runtime.allocate(Math.max(needed, 2 * this.count), this.width);
    if (this.count > 0) this.states.write(old.rows(this.first, this.count));
    this.first = 0;
    old.free();
  }
}

/** One row for each node of a growing draft, on the device: what its children read. */
export class NodeRows {
  private readonly rows = new Map<number, RowBuffer>(); // [node] -> [1, width]

  constructor(
    private readonly runtime: Runtime,
    private readonly width: number,
  ) {}

  keep(rows: RowBuffer, nodes: readonly number[]): void {
    nodes.forEach((node, row) => this.rows.set(node, rows.rows(row, 1)));
  }

  /** Belongs to the caller; zeros for nodes without a row. */
  gather(nodes: readonly number[]): RowBuffer {
    const gathered = this.runtime.allocate(nodes.length, this.width);
    nodes.forEach((node, row) => {
      gathered.write(this.rows.get(node) ?? new Float32Array(this.width), row);
    });
    return gathered;
  }

  clear(): void {
    for (const row of this.rows.values()) row.free();
    this.rows.clear();
  }
}
