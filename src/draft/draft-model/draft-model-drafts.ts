/** Builds the drafts of a draft model in one program: verified tokens first, then drafted ones. */
import { input } from '../../graph/operations/leaves.js';
import type { Tensor } from '../../graph/tensor.js';
import type { CausalModel } from '../../model/causal-model.js';
import { embedTokens, runDecoder } from '../../model/decoder.js';
import type { AttentionContext, KeyValueRows } from '../../model/decoder-layer.js';
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
import type { NamedTensors } from '../../runtime/program.js';
import type { TokenChooser } from '../programs/chain-program.js';
import { chainOutputs, chooseBest, declareChainContexts } from '../programs/chain-program.js';
import type { TreeSize } from '../programs/program-drafts.js';
import { buildTree } from '../programs/tree-program.js';

/** Logits over the tokens that may be proposed. [..., hidden] -> [..., draft vocabulary] */
type Projection = (features: Tensor) => Tensor;

export function buildDraftModelChain(
  model: CausalModel,
  project: Projection,
  length: number,
  choose: TokenChooser = chooseBest(undefined),
): NamedTensors {
  const { context, rows, root, next } = readVerified(model, project);
  const chosen = [choose(root)];
  for (const level of declareChainContexts(context, length - 1, model.configuration.headSize))
    chosen.push(choose(next(chosen.at(-1)!.token, level)));
  return chainOutputs(chosen, rows);
}

export function buildDraftModelTree(model: CausalModel, project: Projection, size: TreeSize): NamedTensors {
  const { context, rows, root, next } = readVerified(model, project);
  const setting = { context, headSize: model.configuration.headSize, targetTokens: undefined };
  const tree = buildTree(size, setting, root, (round) => next(round.tokens, round.context));
  return { ...tree, rows };
}

function readVerified({ configuration, scope }: CausalModel, project: Projection) {
  const context = declareAttention(configuration);
  const past = declarePast(configuration);
  const embed = (ids: Tensor): Tensor => joinLanes(embedTokens(configuration, scope, ids));
  const tokens = input('tokens', [row, lanes], 'int32');
  const first = runDecoder(configuration, scope, embed(tokens), { context, past });
  let earlier: readonly KeyValueRows[] = first.rows;
  return {
    context,
    rows: stackRows(first.rows, configuration),
    /** After the last verified token. [1, lanes, draft vocabulary] */
    root: project(selectRows(first.features, 1)),
    /** After drafted tokens. [n, lanes] -> [n, lanes, draft vocabulary] */
    next: (ids: Tensor, own: AttentionContext): Tensor => {
      const step = runDecoder(configuration, scope, embed(ids), { context: own, past, earlier });
      earlier = earlier.map((before, layer) => joinRows(before, step.rows[layer]!));
      return project(partLanes(step.features, ids.shape[0]));
    },
  };
}
