/**
 * A session whose products read packed copies from a file (packed-weights.ts). If ONNX Runtime did not take a copy, the
 * product is NaN. So the first values of every output are looked at, and where one is NaN, a session with the weights
 * themselves takes over and answers instead. It needs memory for packed weights of its own.
 */
import type { Session, SessionResult, SessionValue } from './session.js';

export class CheckedSession implements Session {
  private readonly seen = new Set<string>();
  private replacement: Promise<Session> | undefined;

  constructor(
    private readonly packed: Session,
    private readonly outputs: readonly string[],
    private readonly loadReplacement: () => Promise<Session>,
  ) {}

  async run(
    inputs: Readonly<Record<string, SessionValue>>,
    outputs: readonly string[] = this.outputs,
  ): Promise<Readonly<Record<string, SessionResult>>> {
    if (this.replacement !== undefined) return (await this.replacement).run(inputs, outputs);
    const results = await this.packed.run(inputs, outputs);
    const unseen = outputs.filter((name) => !this.seen.has(name));
    if (!unseen.some((name) => hasNaN(results[name]!))) {
      for (const name of unseen) this.seen.add(name);
      return results;
    }
    this.replacement ??= this.replace();
    return (await this.replacement).run(inputs, outputs);
  }

  private async replace(): Promise<Session> {
    const session = await this.loadReplacement();
    await this.packed.release();
    return session;
  }

  async release(): Promise<void> {
    await (this.replacement === undefined ? this.packed : await this.replacement).release();
  }
}

function hasNaN({ data }: SessionResult): boolean {
  return data instanceof Float32Array && data.some(Number.isNaN);
}
