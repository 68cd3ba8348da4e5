/** What the frozen target says about a batch of texts: its features, and the taps that a drafter reads. */
import { concatenate } from '../graph/operations/shaping.js';
import type { Tensor } from '../graph/tensor.js';
import { embedTokens, runDecoder } from '../model/decoder.js';
import type { MixedValues, Program, TensorValue } from '../runtime/program.js';
import type { Pair } from './training-graph.js';
import { contextInputs, declareContext, tokensInput } from './training-graph.js';

export class TeacherStates {
  private constructor(
    private readonly pair: Pair,
    private readonly program: Program,
  ) {}

  static async create(pair: Pair): Promise<TeacherStates> {
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
    return new TeacherStates(pair, await target.runtime.compile(outputs, [target.weights]));
  }

  /** features [batch, row, hidden] and taps [batch, row, taps * hidden], which stay with the runtime. */
  async read(tokens: TensorValue): Promise<MixedValues> {
    const { target, drafter } = this.pair;
    const [, length] = tokens.shape as [number, number];
    const { slidingWindow } = target.configuration;
    const inputs = { tokens, ...contextInputs('', target.rotary, length, slidingWindow) };
    return this.program.run(inputs, {
      features: 'runtime',
      ...(drafter.taps.length === 0 ? {} : { taps: 'runtime' as const }),
    });
  }

  async dispose(): Promise<void> {
    await this.program.dispose();
  }
}
