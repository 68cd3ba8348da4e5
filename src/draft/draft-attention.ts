/**
 * Attention of drafters that keep a cache of their own. Verified rows come first and stay; rows of drafted nodes are
 * appended behind them while a tree grows and dropped when it has been verified. A drafted node sees all verified
 * rows, its drafted ancestors and itself.
 */
import { attentionInputs, blocked } from '../model/attention-inputs.js';
import type { KvCache } from '../model/kv-cache.js';
import type { RotaryTable } from '../model/rotary.js';
import type { NamedValues } from '../runtime/program.js';
import { float32 } from '../runtime/program.js';
import type { RowBuffer } from '../runtime/row-buffer.js';
import type { GrowingDraft } from './drafter.js';

export class DraftAttention {
  /** Rows of verified positions. */
  private verified: number;
  /** Drafted node of each row behind the verified ones. */
  private drafted: number[] = [];

  constructor(
    readonly cache: KvCache,
    private readonly rotary: RotaryTable,
  ) {
    this.verified = cache.length;
  }

  get verifiedLength(): number {
    return this.verified;
  }

  /** Forgets the last tree. */
  reset(): void {
    this.cache.truncate(this.verified);
    this.drafted = [];
  }

  verifiedInputs(count: number): NamedValues {
    return attentionInputs({ count, pastLength: this.cache.pastLength }, this.rotary);
  }

  keepVerified(rows: RowBuffer /* [slot, row, head, size] */, count: number): void {
    this.cache.appendAll(rows, count);
    this.verified = this.cache.length;
  }

  /** `level` counts the positions between the last verified row and the nodes: 0 directly behind it. */
  draftedInputs(draft: GrowingDraft, nodes: readonly number[], level: number): NamedValues {
    const count = nodes.length;
    const { pastLength } = this.cache;
    const width = pastLength + count;
    const mask = new Float32Array(count * width).fill(blocked);
    nodes.forEach((node, row) => {
      const start = row * width;
      mask.fill(0, start + 1, start + 1 + this.verified);
      const ancestors = new Set<number>();
      for (let at = draft.parents[node]!; at >= 0; at = draft.parents[at]!) ancestors.add(at);
      this.drafted.forEach((other, index) => {
        if (ancestors.has(other)) mask[start + 1 + this.verified + index] = 0;
      });
      mask[start + pastLength + row] = 0;
    });
    const positions = new Int32Array(count).fill(this.verified + level);
    return {
      ...attentionInputs({ count, pastLength, positions }, this.rotary),
      mask: float32(mask, [count, width]),
    };
  }

  keepDrafted(rows: RowBuffer /* [slot, row, head, size] */, nodes: readonly number[]): void {
    this.cache.appendAll(rows, nodes.length);
    this.drafted.push(...nodes);
  }
}
