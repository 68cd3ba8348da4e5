/** A greedy chain of a draft model in one program: the verified tokens first, then one drafted token after the other. */
import { subtractDimensions, symbol } from '../graph/dimension.js';
import { input } from '../graph/operations/leaves.js';
import { reshape, slice } from '../graph/operations/shaping.js';
import type { Tensor } from '../graph/tensor.js';
import type { CausalModel } from '../model/causal-model.js';
import { declareAttention, declarePast, stackRows } from '../model/causal-model.js';
import { embedTokens, runDecoder } from '../model/decoder.js';
import type { KeyValueRows } from '../model/decoder-layer.js';
import { joinRows } from '../model/decoder-layer.js';
import type { NamedTensors } from '../runtime/program.js';
import { chainOutputs, chooseToken, declareChainContexts } from './chain-program.js';

/** `project` gives logits over the tokens that may be proposed. [1, hidden] -> [1, draft vocabulary] */
export function buildDraftModelChain(
  { configuration, scope }: CausalModel,
  project: (features: Tensor) => Tensor,
  length: number,
): NamedTensors {
  const { hiddenSize, headSize } = configuration;
  const row = symbol('row');
  const context = declareAttention(configuration);
  const past = declarePast(configuration);
  const embed = (ids: Tensor): Tensor =>
    reshape(embedTokens(configuration, scope, ids), [1, ids.shape[0]!, hiddenSize]);
  const choose = (features: Tensor) => chooseToken(project(reshape(features, [1, hiddenSize])), undefined);
  const first = runDecoder(configuration, scope, embed(input('tokens', [row], 'int32')), { context, past });
  const chosen = [choose(slice(first.features, 1, subtractDimensions(row, 1)))];
  let earlier: readonly KeyValueRows[] = first.rows;
  for (const level of declareChainContexts(context, length - 1, headSize)) {
    const step = runDecoder(configuration, scope, embed(chosen.at(-1)!.token), {
      context: level,
      past,
      earlier,
    });
    earlier = earlier.map((rows, layer) => joinRows(rows, step.rows[layer]!));
    chosen.push(choose(step.features));
  }
  return chainOutputs(chosen, stackRows(first.rows, configuration));
}
