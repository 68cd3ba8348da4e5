/**
 * What a drafter with attention of its own knows of the text: a cache of the rows that it has read, and the verified rows
 * that it has heard of and not read yet. They are read in chunks when a draft begins, and the last chunk is the run that
 * begins the draft; the newest row always waits for that.
 *
 * Where the drafter reads the target's states, row t pairs the state at t with the token t + 1. Where it reads tokens
 * alone, row t is the token t: the rows begin with the first token, and the newest of them is the root of the next draft.
 */
import { attentionInputs, blocked, maskInput, rowNumbers } from '../../model/attention-inputs.js';
import type { KvCache } from '../../model/cache/kv-cache.js';
import type { LaneProgram } from '../../model/lanes/lane-program.js';
import type { PassScheduler } from '../../model/lanes/pass-scheduler.js';
import { runDirectly } from '../../model/lanes/pass-scheduler.js';
import type { RotaryTable } from '../../model/rotary/rotary.js';
import type { MixedValues, NamedValues } from '../../runtime/program.js';
import { bufferOf } from '../../runtime/program.js';
import type { RowBuffer } from '../../runtime/row-buffer.js';
import type { GrowingDraft, VerifiedTokens } from '../drafter.js';
import { PendingStates } from './states.js';

/**
 * Attention of drafters that keep a cache of their own. Verified rows come first and stay; rows of drafted nodes are
 * appended behind them while a tree grows and dropped when it has been verified. A drafted node sees all verified
 * rows, its drafted ancestors and itself.
 */
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
      mask: maskInput(mask, [count, width]),
    };
  }

  keepDrafted(rows: RowBuffer /* [slot, row, head, size] */, nodes: readonly number[]): void {
    this.cache.appendAll(rows, nodes.length);
    this.drafted.push(...nodes);
  }
}

export interface MemoryOptions {
  readonly cache: KvCache;
  readonly rotary: RotaryTable;
  /** Of the target's states; 0 where the drafter reads tokens alone. */
  readonly stateWidth: number;
  /** What its program reads of some rows, besides attention. */
  readonly inputsOf: (states: RowBuffer /* [row, width] */, tokens: Int32Array /* [row] */) => MixedValues;
  /** Alone unless given. */
  readonly scheduler?: PassScheduler;
}

/** Rows of one run: more would need more memory at once than reading them together saves time. */
const chunkRows = 256;

export class DraftMemory {
  readonly attention: DraftAttention;
  private readonly pending: PendingStates;
  private readonly scheduler: PassScheduler;
  /** Whether the token that the next verification begins with is among the rows. */
  private hasRoot: boolean;

  constructor(private readonly options: MemoryOptions) {
    this.attention = new DraftAttention(options.cache, options.rotary);
    this.pending = new PendingStates(options.cache.pool.runtime, options.stateWidth);
    this.scheduler = options.scheduler ?? runDirectly;
    this.hasRoot = options.stateWidth > 0;
  }

  /** Verified rows, read or not; the drafted rows of the last tree do not count. */
  get length(): number {
    return this.attention.verifiedLength + this.pending.count;
  }

  observe(verified: VerifiedTokens): void {
    const [first] = verified.tokens;
    if (!this.hasRoot && first !== undefined) {
      this.pending.push({ ...verified, tokens: Int32Array.of(-1), next: first }); // nothing comes before it
      this.hasRoot = true;
    }
    this.pending.push(verified);
  }

  /** Reads every pending row and returns the outputs of the last run, which `finish` may do in its own way. */
  async read(
    program: LaneProgram,
    names: readonly string[],
    finish: (inputs: MixedValues, count: number) => Promise<MixedValues> = (inputs, count) =>
      this.run(program, { ...inputs, select: rowNumbers([count - 1]) }, names),
  ): Promise<MixedValues> {
    let last: MixedValues = {};
    let left = this.pending.count;
    await this.drain(0, async (inputs, count) => {
      left -= count;
      return (last = left > 0 ? await this.readRows(program, inputs, count) : await finish(inputs, count));
    });
    return last;
  }

  /** Reads all but the newest row, with which the next draft begins. */
  async catchUp(program: LaneProgram): Promise<void> {
    await this.drain(1, (inputs, count) => this.readRows(program, inputs, count));
  }

  run(program: LaneProgram, inputs: MixedValues, names: readonly string[]): Promise<MixedValues> {
    return this.scheduler.run(program, { inputs, cache: this.options.cache }, names);
  }

  close(): void {
    this.pending.close();
    this.options.cache.release();
  }

  private readRows(program: LaneProgram, inputs: MixedValues, count: number): Promise<MixedValues> {
    return this.run(program, { ...inputs, select: rowNumbers([count - 1]) }, ['rows']);
  }

  private async drain(
    leave: number,
    run: (inputs: MixedValues, count: number) => Promise<MixedValues>,
  ): Promise<void> {
    this.attention.reset();
    await this.pending.drain(
      chunkRows,
      async (states, tokens) => {
        const count = tokens.length;
        const inputs = { ...this.options.inputsOf(states, tokens), ...this.attention.verifiedInputs(count) };
        const rows = bufferOf(await run(inputs, count), 'rows');
        this.attention.keepVerified(rows, count);
        rows.free();
      },
      leave,
    );
  }
}
