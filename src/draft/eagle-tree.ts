/** A dynamic tree of an EAGLE head in one program: the verified states first, then round after round of its own features. */
import { gatherRows } from '../graph/operations/indexing.js';
import { input } from '../graph/operations/leaves.js';
import { broadcast } from '../graph/operations/shaping.js';
import type { Tensor } from '../graph/tensor.js';
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
import type { EagleHead } from './eagle-session.js';
import type { TreeSize } from './program-drafts.js';
import { buildTree } from './tree-program.js';

export function buildEagleTree(head: EagleHead, size: TreeSize): NamedTensors {
  const { configuration, vocabularies } = head;
  const states = joinLanes(input('states', [row, lanes, head.stateWidth]));
  const tokens = input('tokens', [row, lanes], 'int32');
  const [past] = declarePast(configuration);
  const context = declareAttention(configuration);
  const embed = (ids: Tensor): Tensor => joinLanes(gatherRows(head.embedding, ids));

  const first = head.step(head.fuse(states), embed(tokens), context, { past });
  const root = selectRows(first.features, 1); // [1, lanes, hidden]
  let features = broadcast(root, [size.topK, lanes, configuration.hiddenSize]);
  let earlier: KeyValueRows = first.rows;
  const setting = { context, headSize: configuration.headSize, targetTokens: vocabularies.targetTokens };
  const tree = buildTree(size, setting, head.score(root), (round) => {
    const read = joinLanes(round.fromParents(features));
    const step = head.step(read, embed(round.tokens), round.context, { past, earlier });
    earlier = joinRows(earlier, step.rows);
    features = partLanes(step.features, size.topK);
    return head.score(features);
  });
  return { ...tree, rows: stackRows([first.rows], configuration) };
}
