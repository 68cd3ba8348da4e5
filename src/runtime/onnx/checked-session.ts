/**
 * A session whose products read packed copies from a file (packed-weights.ts). If ONNX Runtime does not find a copy,
 * the product is NaN, so the first values of every output are checked. On NaN, a session with the plain weights takes
 * over and recomputes.
 */
import type { Session, SessionResult, SessionValue } from './session.js';

export class CheckedSession implements Session {
  private readonly checked = new Set<string>();
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
    if (this.replacement === undefined) {
      const results = await this.packed.run(inputs, outputs);
      // An output without values proves nothing.
      const unchecked = outputs.filter((name) => !this.checked.has(name) && results[name]!.data.length > 0);
      if (!unchecked.some((name) => hasNaN(results[name]!))) {
        for (const name of unchecked) this.checked.add(name);
        return results;
      }
      this.replacement ??= this.loadReplacement();
    }
    return (await this.replacement).run(inputs, outputs);
  }

  async release(): Promise<void> {
    // Other runs of the packed session may have been in progress.
    await this.packed.release();
    await (await this.replacement)?.release();
  }
}

function hasNaN({ data }: SessionResult): boolean {
  return data instanceof Float32Array && data.some(Number.isNaN);
}
