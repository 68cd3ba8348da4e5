/**
 * Greedy passes that start before the host knows the tokens they read: these stay in the runtime. That hides what the
 * host does between passes. A pass may be in vain: the last one of an answer, or one over a chain that is not kept.
 */
import { outputsFor, type StateReader } from '../draft/joined/target-states.js';
import type { KvCache } from '../model/cache/kv-cache.js';
import type { CausalModel } from '../model/causal-model.js';
import { allocatePass, type ForwardResult, freePass, type KeptPass, readChosen } from '../model/forward.js';
import type { PassScheduler } from '../model/lanes/lane-program.js';
import type { Runtime } from '../runtime/program.js';
import type { RowBuffer } from '../runtime/row-buffer.js';

/** Without an argmax if the runtime keeps it. */
type Pass = Pick<ForwardResult, 'argmax' | 'features' | 'taps'>;

/** Plain decoding: a pass over one token each. */
export class PassesAhead {
  private readonly kept: KeptPass;
  /** The pass over a token that `next` has not been called with. */
  private ahead: Pass | undefined;

  constructor(
    private readonly model: CausalModel,
    private readonly cache: KvCache,
    private readonly scheduler: PassScheduler,
    private readonly reader: StateReader,
  ) {
    this.kept = allocatePass(model.runtime, model.configuration);
  }

  get isAhead(): boolean {
    return this.ahead !== undefined;
  }

  /** Whether there is no room for the pass that `next` needs. */
  get isFull(): boolean {
    return !this.isAhead && this.cache.length >= this.model.configuration.contextLength;
  }

  /**
   * The token after `token`, which the call before returned, and what the reader reads of the pass. `mayGoOn`: another
   * one will be asked for, as far as known.
   */
  async next(token: number, mayGoOn: boolean): Promise<Pass> {
    const { kept, scheduler, cache, model } = this;
    const into = scheduler.isAlone ? kept : undefined;
    const pass = this.ahead ?? (await this.start(Int32Array.of(token), into));
    this.ahead = undefined;
    if (pass.argmax !== undefined) return pass;
    const before = { tokens: kept.argmax, cache: { length: cache.length - 1 } };
    const reading = readChosen(model.name, kept, before);
    if (mayGoOn && scheduler.isAlone && cache.length < model.configuration.contextLength) {
      reading.catch(() => undefined); // thrown below, unless this throws first
      this.ahead = await this.start(kept.argmax, kept);
    }
    return { ...pass, argmax: Int32Array.of(await reading) };
  }

  free(): void {
    this.ahead?.features?.free();
    this.ahead?.taps?.free();
    freePass(this.kept);
  }

  private async start(tokens: Int32Array | RowBuffer, into: KeptPass | undefined): Promise<Pass> {
    const { model, cache, scheduler, reader } = this;
    const want = ['argmax' as const, ...outputsFor(reader)];
    const result = await model.forward({ tokens, cache, want, taps: reader.taps, scheduler, into });
    cache.append(result.rows, [0]);
    if (result.rows !== into?.rows) result.rows.free();
    return result;
  }
}

/** The pass that verifies a chain. */
export class ChainAhead {
  /** Has the same address each time, as recordings need. */
  private tokens: RowBuffer | undefined;
  private pass: Promise<ForwardResult> | undefined;

  constructor(
    private readonly runtime: Runtime,
    private readonly read: (tokens: RowBuffer) => Promise<ForwardResult>,
  ) {}

  start(root: number, chain: RowBuffer /* [level] the bits of int32 */): void {
    const count = chain.rowCount + 1;
    if (this.tokens === undefined || this.tokens.rowCount < count) {
      this.tokens?.free();
      this.tokens = this.runtime.allocate(count, 1);
    }
    const tokens = this.tokens.rows(0, count);
    tokens.write(new Float32Array(Int32Array.of(root).buffer));
    tokens.write(chain, 1);
    this.pass = this.read(tokens);
  }

  take(): Promise<ForwardResult> | undefined {
    const { pass } = this;
    this.pass = undefined;
    return pass;
  }

  async drop(): Promise<void> {
    const unread = await this.take();
    for (const buffer of [unread?.rows, unread?.taps, unread?.features]) buffer?.free();
  }

  free(): void {
    this.tokens?.free();
  }
}
