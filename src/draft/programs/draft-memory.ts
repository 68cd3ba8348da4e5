/**
 * The text as a drafter with attention knows it: a cache of the rows it has read, and verified rows it has not read
 * yet. They are read in chunks when a draft begins; the newest row starts the draft.
 * If the drafter reads states, row t pairs the state at t with token t + 1. If it reads tokens only, row t is token
 * t, and the newest is the root of the next draft.
 */
import { attentionInputs, blocked, maskInput, rowNumbers } from '../../model/attention-inputs.js';
import type { KvCache } from '../../model/cache/kv-cache.js';
import {
  runDirectly,
  type LaneProgram,
  type LaneRun,
  type PassScheduler,
} from '../../model/lanes/lane-program.js';
import type { RotaryTable } from '../../model/rotary/rotary.js';
import { bufferOf, int32, type MixedValues, type NamedValues, resident } from '../../runtime/program.js';
import type { RowBuffer } from '../../runtime/row-buffer.js';
import type { VerifiedTokens } from '../drafter.js';
import type { GrowingDraft } from '../tree/grow-tree.js';
import { PendingStates } from './states.js';

/**
 * Attention with a cache of its own. Rows of drafted nodes are appended after the verified ones while a tree grows
 * and dropped after verification. A drafted node sees all verified rows, its ancestors and itself, within a window if
 * there is one.
 */
export class DraftAttention {
  private verified: number;
  /** Node of each row after the verified ones. */
  private drafted: number[] = [];

  constructor(
    readonly cache: KvCache,
    private readonly rotary: RotaryTable,
    private readonly window = Infinity,
  ) {
    this.verified = cache.length;
  }

  get verifiedLength(): number {
    return this.verified;
  }

  reset(): void {
    this.cache.truncate(this.verified);
    this.drafted = [];
  }

  truncate(length: number): void {
    this.verified = Math.min(this.verified, length);
    this.reset();
  }

  verifiedInputs(count: number): NamedValues {
    const window = this.window === Infinity ? undefined : this.window;
    return attentionInputs({ count, pastLength: this.cache.pastLength, window }, this.rotary);
  }

  keepVerified(rows: RowBuffer /* [slot, row, head, size] */, count: number): void {
    this.cache.appendAll(rows, count);
    this.verified = this.cache.length;
  }

  /** `level`: positions between the last verified row and the nodes. */
  draftedInputs(draft: GrowingDraft, nodes: readonly number[], level: number): NamedValues {
    const count = nodes.length;
    const { pastLength } = this.cache;
    const width = pastLength + count;
    const mask = new Float32Array(count * width).fill(blocked);
    const oldest = Math.max(0, this.verified + level - this.window + 1);
    nodes.forEach((node, row) => {
      const start = row * width;
      mask.fill(0, start + 1 + oldest, start + 1 + this.verified);
      const ancestors = new Set<number>();
      let distance = 1;
      for (let at = draft.parents[node]!; at >= 0 && distance < this.window; at = draft.parents[at]!) {
        ancestors.add(at);
        distance += 1;
      }
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
  /** Positions that a row sees; default all. */
  readonly window?: number | undefined;
  /** 0 if the drafter reads only tokens. */
  readonly stateWidth: number;
  /** By default `tokens` and, if it reads them, `states`. */
  readonly inputsOf?:
    | ((states: RowBuffer /* [row, width] */, tokens: Int32Array /* [row] */) => MixedValues)
    | undefined;
  readonly scheduler?: PassScheduler | undefined;
}

const chunkRows = 256;
/**
 * Rows that a run with a draft reads. More were left by steps without it; the reader takes them, so that a program for
 * each length of a draft needs kernels and layouts for few rows only.
 */
const newestRows = 8;

export class DraftMemory {
  readonly attention: DraftAttention;
  private readonly pending: PendingStates;
  private readonly scheduler: PassScheduler;
  /** Whether the root of the next draft is among the rows. */
  private hasRoot: boolean;

  constructor(private readonly options: MemoryOptions) {
    this.attention = new DraftAttention(options.cache, options.rotary, options.window);
    this.pending = new PendingStates(options.cache.pool.runtime, options.stateWidth);
    this.scheduler = options.scheduler ?? runDirectly;
    this.hasRoot = options.stateWidth > 0;
  }

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

  /** Without states: keeps the first `kept` tokens of the text, and their rows, and reads these behind them. */
  replaceText(kept: number, tokens: readonly number[]): void {
    this.attention.truncate(kept);
    this.pending.replaceTokens(kept - this.attention.verifiedLength, tokens);
    this.hasRoot = true;
  }

  /** Returns the outputs of the last run, which `finish` may do itself. */
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

  /**
   * Runs `program` on the newest verified rows and a draft behind them; `reader` reads the chunks before these.
   * @param behind adds the inputs of the draft, which begins at position `start`
   */
  async draft(
    reader: LaneProgram,
    program: LaneProgram,
    names: readonly string[],
    behind: (inputs: MixedValues, start: number) => MixedValues,
    into?: LaneRun['into'],
  ): Promise<MixedValues> {
    await this.drain(newestRows, (inputs, count) => this.readRows(reader, inputs, count));
    return this.read(reader, [], (inputs, count) => {
      const start = this.attention.verifiedLength + count;
      return this.run(program, behind(inputs, start), [...names, 'rows'], into);
    });
  }

  async catchUp(program: LaneProgram): Promise<void> {
    await this.drain(1, (inputs, count) => this.readRows(program, inputs, count));
  }

  run(
    program: LaneProgram,
    inputs: MixedValues,
    names: readonly string[],
    into?: LaneRun['into'],
  ): Promise<MixedValues> {
    return this.scheduler.run(program, { inputs, cache: this.options.cache, into }, names);
  }

  /** Reads verified tokens into the cache, which the caller keeps. Without states, the newest row is the next root. */
  async readPrefix(verified: VerifiedTokens, program: LaneProgram): Promise<void> {
    this.observe(verified);
    try {
      if (this.options.stateWidth > 0) await this.read(program, ['rows']);
      else await this.catchUp(program);
    } finally {
      this.pending.close();
    }
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
        const { stateWidth, inputsOf } = this.options;
        const own = inputsOf?.(states, tokens) ?? {
          ...(stateWidth === 0 ? {} : { states: resident(states) }),
          tokens: int32(tokens),
        };
        const inputs = { ...own, ...this.attention.verifiedInputs(count) };
        const rows = bufferOf(await run(inputs, count), 'rows');
        this.attention.keepVerified(rows, count);
        rows.free();
      },
      leave,
    );
  }
}
