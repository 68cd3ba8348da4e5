/** A dynamic tree of a draft model in one program: the verified tokens first, then round after round of drafted ones. */
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
import type { TreeSize } from './program-drafts.js';
import { buildTree } from './tree-program.js';

/** `project` gives logits over the tokens that may be proposed. [..., hidden] -> [..., draft vocabulary] */
export function buildDraftModelTree(
  { configuration, scope }: CausalModel,
  project: (features: Tensor) => Tensor,
  size: TreeSize,
): NamedTensors {
  const context = declareAttention(configuration);
  const past = declarePast(configuration);
  const embed = (ids: Tensor): Tensor => joinLanes(embedTokens(configuration, scope, ids));
  const tokens = input('tokens', [row, lanes], 'int32');
  const first = runDecoder(configuration, scope, embed(tokens), { context, past });
  let earlier: readonly KeyValueRows[] = first.rows;
  const setting = { context, headSize: configuration.headSize, targetTokens: undefined };
  const tree = buildTree(size, setting, project(selectRows(first.features, 1)), (round) => {
    const step = runDecoder(configuration, scope, embed(round.tokens), {
      ...{ context: round.context, past, earlier },
    });
    earlier = earlier.map((rows, layer) => joinRows(rows, step.rows[layer]!));
    return project(partLanes(step.features, size.topK));
  });
  return { ...tree, rows: stackRows(first.rows, configuration) };
}
