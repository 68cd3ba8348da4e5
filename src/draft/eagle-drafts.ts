/** Drafts of an EAGLE head in one program: the verified states first, then its own features, one or a round at a time. */
import { gatherRows } from '../graph/operations/indexing.js';
import { input } from '../graph/operations/leaves.js';
import { broadcast } from '../graph/operations/shaping.js';
import type { Tensor } from '../graph/tensor.js';
import type { AttentionContext, KeyValueRows } from '../model/decoder-layer.js';
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
import type { EagleHead } from './eagle-session.js';
import type { TreeSize } from './program-drafts.js';
import { buildTree } from './tree-program.js';

export function buildEagleChain(
  head: EagleHead,
  length: number,
  choose: TokenChooser = chooseBest(head.vocabularies.targetTokens),
): NamedTensors {
  const { context, rows, root, next } = readVerified(head);
  let feature = root;
  const chosen = [choose(head.score(feature))];
  for (const level of declareChainContexts(context, length - 1, head.configuration.headSize)) {
    feature = next(feature, chosen.at(-1)!.token, level);
    chosen.push(choose(head.score(feature)));
  }
  return chainOutputs(chosen, rows);
}

export function buildEagleTree(head: EagleHead, size: TreeSize): NamedTensors {
  const { context, rows, root, next } = readVerified(head);
  const { headSize, hiddenSize } = head.configuration;
  let features = broadcast(root, [size.topK, lanes, hiddenSize]);
  const setting = { context, headSize, targetTokens: head.vocabularies.targetTokens };
  const tree = buildTree(size, setting, head.score(root), (round) => {
    features = next(round.fromParents(features), round.tokens, round.context);
    return head.score(features);
  });
  return { ...tree, rows };
}

function readVerified(head: EagleHead) {
  const { configuration } = head;
  const states = joinLanes(input('states', [row, lanes, head.stateWidth]));
  const tokens = input('tokens', [row, lanes], 'int32');
  const [past] = declarePast(configuration);
  const context = declareAttention(configuration);
  const embed = (ids: Tensor): Tensor => joinLanes(gatherRows(head.embedding, ids));
  const first = head.step(head.fuse(states), embed(tokens), context, { past });
  let earlier: KeyValueRows = first.rows;
  return {
    context,
    /** What the verified states leave in its cache. */
    rows: stackRows([first.rows], configuration),
    /** The feature behind the last of them. [1, lanes, hidden] */
    root: selectRows(first.features, 1),
    /** Features behind drafted tokens, each fed with one: [n, lanes, hidden] and [n, lanes] -> [n, lanes, hidden] */
    next: (features: Tensor, ids: Tensor, own: AttentionContext): Tensor => {
      const step = head.step(joinLanes(features), embed(ids), own, { past, earlier });
      earlier = joinRows(earlier, step.rows);
      return partLanes(step.features, ids.shape[0]);
    },
  };
}
