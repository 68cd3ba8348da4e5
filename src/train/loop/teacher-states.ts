/**
 * The frozen target's features of a batch of texts, and the taps that the drafter reads. With a store, the states of a text
 * are computed once and read from disk in later epochs; padding rows are then zeros, which no text attends to.
 */
import { concatenate } from '../../graph/operations/shaping.js';
import type { Tensor } from '../../graph/tensor.js';
import { embedTokens, runDecoder } from '../../model/decoder.js';
import { type MixedValues, type Program, bufferOf, float32, int32 } from '../../runtime/program.js';
import type { StateStore } from './state-store.js';
import type { TextBatch } from '../data/batches.js';
import { type Pair, contextInputs, declareContext, tokensInput } from './losses.js';

export class TeacherStates {
  private constructor(
    private readonly pair: Pair,
    private readonly program: Program,
    private readonly store: StateStore | undefined,
  ) {}

  static async create(pair: Pair, store?: StateStore): Promise<TeacherStates> {
    const { target, drafter } = pair;
    const { configuration, scope } = target;
    const { features, taps } = runDecoder(
      configuration,
      scope,
      embedTokens(configuration, scope, tokensInput()),
      { context: declareContext('', configuration.headSize), taps: drafter.taps },
    );
    const outputs: Record<string, Tensor> = { features };
    if (taps.length > 0) outputs.taps = concatenate(taps, -1);
    return new TeacherStates(pair, await target.runtime.compile(outputs, [target.weights]), store);
  }

  /** features [batch, row, hidden] and taps [batch, row, taps * hidden] */
  async read(batch: TextBatch): Promise<MixedValues> {
    return this.store === undefined ? this.compute(batch) : this.readKept(this.store, batch);
  }

  private async compute(batch: TextBatch): Promise<MixedValues> {
    const { target, drafter } = this.pair;
    const { slidingWindow } = target.configuration;
    const inputs = {
      tokens: int32(batch.tokens, batch.shape),
      ...contextInputs('', target.rotary, batch, slidingWindow),
    };
    return this.program.run(inputs, {
      features: 'runtime',
      ...(drafter.taps.length === 0 ? {} : { taps: 'runtime' as const }),
    });
  }

  private async readKept(store: StateStore, batch: TextBatch): Promise<MixedValues> {
    const { target, drafter } = this.pair;
    const { hiddenSize } = target.configuration;
    const { texts, shape } = batch;
    const [count, length] = shape;
    const widths = { features: hiddenSize, taps: drafter.taps.length * hiddenSize };
    const parts = (Object.keys(widths) as (keyof typeof widths)[]).filter((part) => widths[part] > 0);
    const isThere = texts.every(({ id }) => parts.every((part) => store.has(`${part} ${id}`)));
    const computed = isThere ? undefined : await this.compute(batch);
    const states: Record<string, ReturnType<typeof float32>> = {};
    for (const part of parts) {
      const width = widths[part];
      const all = new Float32Array(count * length * width);
      const fresh = computed === undefined ? undefined : await bufferOf(computed, part).read();
      for (const text of texts) {
        const key = `${part} ${text.id}`;
        const first = text.row * length + text.start;
        // Up to the last token in the loss; later rows are not needed.
        const rows = batch.weights.subarray(first, first + text.length).lastIndexOf(1) + 1;
        const start = first * width;
        const compute = () => store.put(key, fresh!.slice(start, start + rows * width), [rows, width]);
        all.set(store.get(key) ?? compute(), start);
      }
      states[part] = float32(all, [count, length, width]);
    }
    freeStates(computed ?? {});
    return states;
  }

  async dispose(): Promise<void> {
    await this.program.dispose();
  }
}

export function freeStates(states: MixedValues): void {
  for (const value of Object.values(states)) if ('buffer' in value) value.buffer.free();
}
