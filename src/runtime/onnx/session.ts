import type { InferenceSession, Tensor } from 'onnxruntime-node';
import { loadOnnxRuntime } from './load-onnxruntime.js';

/**
 * A session whose products read packed copies from a file (packed-weights.ts). If ONNX Runtime does not find a copy,
 * the product is NaN, so the first values of every output are checked. On NaN, a session with the plain weights takes
 * over and recomputes.
 */
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

export interface SessionValue {
  readonly type: 'float32' | 'int32' | 'bool';
  readonly data: Float32Array | Int32Array | Uint8Array;
  readonly dims: readonly number[];
}

export interface SessionResult {
  readonly data: Float32Array | Int32Array | Uint8Array;
  readonly dims: readonly number[];
}

export interface Session {
  run(
    inputs: Readonly<Record<string, SessionValue>>,
    outputs?: readonly string[],
  ): Promise<Readonly<Record<string, SessionResult>>>;
  release(): Promise<void>;
}

export async function createSession(
  model: string | Uint8Array,
  options: InferenceSession.SessionOptions,
): Promise<Session> {
  const ort = loadOnnxRuntime();
  const session =
    typeof model === 'string'
      ? await ort.InferenceSession.create(model, options)
      : await ort.InferenceSession.create(model, options);
  return {
    async run(inputs, outputs) {
      const feeds: Record<string, Tensor> = {};
      for (const name in inputs) {
        const { type, data, dims } = inputs[name]!;
        feeds[name] = new ort.Tensor(type, data as Float32Array, dims);
      }
      return (await (outputs === undefined
        ? session.run(feeds)
        : session.run(feeds, outputs))) as unknown as Readonly<Record<string, SessionResult>>;
    },
    release: () => session.release(),
  };
}
