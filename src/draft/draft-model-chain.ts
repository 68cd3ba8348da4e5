/** A chain of a draft model in one program: the verified tokens first, then one drafted token after the other. */
import { input } from '../graph/operations/leaves.js';
import type { Tensor } from '../graph/tensor.js';
import type { CausalModel } from '../model/causal-model.js';
import { embedTokens, runDecoder } from '../model/decoder.js';
import type { KeyValueRows } from '../model/decoder-layer.js';
import { joinRows } from '../model/decoder-layer.js';
import {
  declareAttention,
  declarePast,
  joinLanes,
  lanes,
  partLanes,
  row,
  selectRows,
  stackRows,
} from '../model/lane-graph.js';
import type { NamedTensors } from '../runtime/program.js';
import type { TokenChooser } from './chain-program.js';
import { chainOutputs, chooseBest, declareChainContexts } from './chain-program.js';

/** `project` gives logits over the tokens that may be proposed. [..., hidden] -> [..., draft vocabulary] */
export function buildDraftModelChain(
  { configuration, scope }: CausalModel,
  project: (features: Tensor) => Tensor,
  length: number,
  choose: TokenChooser = chooseBest(undefined),
): NamedTensors {
  const context = declareAttention(configuration);
  const past = declarePast(configuration);
  const embed = (ids: Tensor): Tensor => joinLanes(embedTokens(configuration, scope, ids));
  const tokens = input('tokens', [row, lanes], 'int32');
  const first = runDecoder(configuration, scope, embed(tokens), { context, past });
  const chosen = [choose(project(selectRows(first.features, 1)))];
  let earlier: readonly KeyValueRows[] = first.rows;
  for (const level of declareChainContexts(context, length - 1, configuration.headSize)) {
    const step = runDecoder(configuration, scope, embed(chosen.at(-1)!.token), {
      context: level,
      past,
      earlier,
    });
    earlier = earlier.map((rows, layer) => joinRows(rows, step.rows[layer]!));
    chosen.push(choose(project(partLanes(step.features, 1))));
  }
  return chainOutputs(chosen, stackRows(first.rows, configuration));
}
