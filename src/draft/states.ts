/** Verified tokens that a drafter has heard of and not yet read, in a buffer that grows by doubling. */
import type { VerifiedTokens } from './drafter.js';

export class PendingStates {
  private states = new Float32Array();
  private nextTokens: number[] = [];

  constructor(private readonly width: number) {}

  get count(): number {
    return this.nextTokens.length;
  }

  push({ tokens, states, next }: VerifiedTokens): void {
    if (tokens.length === 0) return;
    const used = this.count * this.width;
    const needed = used + tokens.length * this.width;
    if (needed > this.states.length) {
      const grown = new Float32Array(Math.max(needed, 2 * this.states.length));
      grown.set(this.states.subarray(0, used));
      this.states = grown;
    }
    this.states.set(states.subarray(0, tokens.length * this.width), used);
    for (let row = 1; row < tokens.length; row++) this.nextTokens.push(tokens[row]!);
    this.nextTokens.push(next);
  }

  /** Hands the rows over in chunks, oldest first, and forgets them; the newest `leave` rows stay. */
  async drain(
    chunk: number,
    visit: (states: Float32Array, nextTokens: Int32Array) => Promise<void>,
    leave = 0,
  ): Promise<void> {
    const drained = this.count - leave;
    for (let start = 0; start < drained; start += chunk) {
      const end = Math.min(drained, start + chunk);
      const states = this.states.subarray(start * this.width, end * this.width);
      await visit(states, Int32Array.from(this.nextTokens.slice(start, end)));
    }
    if (drained <= 0) return;
    this.states.copyWithin(0, drained * this.width, this.count * this.width);
    this.nextTokens = this.nextTokens.slice(drained);
  }

  /** The newest row alone, for heads that look no further back. */
  takeLast(): Float32Array {
    const end = this.count * this.width;
    const last = this.states.slice(end - this.width, end);
    this.nextTokens = [];
    return last;
  }
}
