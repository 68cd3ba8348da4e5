/** Builds the drafts of a draft model in one program: verified tokens first, then drafted ones. */
import { input } from '../../graph/operations/leaves.js';
import type { Tensor } from '../../graph/tensor.js';
import type { CausalModel } from '../../model/causal-model.js';
import { embedTokens, runDecoder } from '../../model/decoder.js';
import type { KeyValueRows } from '../../model/decoder-layer.js';
import { joinRows } from '../../model/decoder-layer.js';
import {
  declareAttention,
  declarePast,
  joinLanes,
  lanes,
  partLanes,
  row,
  selectRows,
  stackRows,
} from '../../model/lanes/lane-graph.js';
import type { VerifiedGraph } from '../programs/fused-drafts.js';

/** Logits over the tokens that may be proposed. [..., hidden] -> [..., draft vocabulary] */
type Projection = (features: Tensor) => Tensor;

export function readVerified({ configuration, scope }: CausalModel, project: Projection): VerifiedGraph {
  const context = declareAttention(configuration);
  const past = declarePast(configuration);
  const embed = (ids: Tensor): Tensor => joinLanes(embedTokens(configuration, scope, ids));
  const tokens = input('tokens', [row, lanes], 'int32');
  const first = runDecoder(configuration, scope, embed(tokens), { context, past });
  let earlier: readonly KeyValueRows[] = first.rows;
  return {
    context,
    rows: stackRows(first.rows, configuration),
    root: project(selectRows(first.features, 1)),
    next(ids, own) {
      const step = runDecoder(configuration, scope, embed(ids), { context: own, past, earlier });
      earlier = earlier.map((before, layer) => joinRows(before, step.rows[layer]!));
      return project(partLanes(step.features, ids.shape[0]));
    },
  };
}
