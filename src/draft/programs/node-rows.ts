import type { Runtime } from '../../runtime/program.js';
import type { RowBuffer } from '../../runtime/row-buffer.js';

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
