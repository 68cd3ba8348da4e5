/**
 * Greedy passes over one token each, where a pass starts before the host knows the token of the one before: the token
 * stays in the runtime. That hides what the host does between passes. The last pass of an answer may be in vain.
 */
import type { KvCache } from '../model/cache/kv-cache.js';
import type { CausalModel } from '../model/causal-model.js';
import { type ChosenTokens, readChosen } from '../model/forward.js';
import { type PassScheduler, runDirectly } from '../model/lanes/lane-program.js';
import type { RowBuffer } from '../runtime/row-buffer.js';

export class PassesAhead {
  private readonly chosen: ChosenTokens | undefined;
  /** The pass over a token that `next` has not been called with; it has a token if the runtime did not keep it. */
  private ahead: { readonly token: number | undefined } | undefined;

  constructor(
    private readonly model: CausalModel,
    private readonly cache: KvCache,
    private readonly scheduler: PassScheduler = runDirectly,
  ) {
    const { runtime } = model;
    if (runtime.keepsTokens === true)
      this.chosen = { argmax: runtime.allocate(1, 1), total: runtime.allocate(1, 1) };
  }

  /** Whether there is no room for the pass that `next` needs. */
  get isFull(): boolean {
    return this.ahead === undefined && this.cache.length >= this.model.configuration.contextLength;
  }

  /** The token after `token`, which the call before returned. `mayGoOn`: another one will be asked for, as far as known. */
  async next(token: number, mayGoOn: boolean): Promise<number> {
    const { chosen, scheduler, cache, model } = this;
    const into = scheduler.isAlone ? chosen : undefined;
    const pass = this.ahead ?? { token: await this.start(Int32Array.of(token), into) };
    this.ahead = undefined;
    if (pass.token !== undefined) return pass.token;
    const before = { tokens: chosen!.argmax, cache: { length: cache.length - 1 } };
    const reading = readChosen(model.name, chosen!, before);
    if (mayGoOn && scheduler.isAlone && cache.length < model.configuration.contextLength) {
      reading.catch(() => undefined); // thrown below, unless this throws first
      this.ahead = { token: await this.start(chosen!.argmax, chosen) };
    }
    return (await reading)[0]!;
  }

  free(): void {
    this.chosen?.argmax.free();
    this.chosen?.total.free();
  }

  /** Starts a pass; returns its token if the runtime did not keep it. */
  private async start(
    tokens: Int32Array | RowBuffer,
    into: ChosenTokens | undefined,
  ): Promise<number | undefined> {
    const { model, cache, scheduler } = this;
    const { rows, argmax } = await model.forward({ tokens, cache, want: ['argmax'], scheduler, into });
    cache.appendAll(rows, 1);
    rows.free();
    return argmax?.[0];
  }
}
