/** An EAGLE chain in one program: the verified states first, then one predicted feature after the other. */
import { gatherRows } from '../graph/operations/indexing.js';
import { input } from '../graph/operations/leaves.js';
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
import type { Tensor } from '../graph/tensor.js';
import type { NamedTensors } from '../runtime/program.js';
import type { TokenChooser } from './chain-program.js';
import { chainOutputs, chooseBest, declareChainContexts } from './chain-program.js';
import type { EagleHead } from './eagle-session.js';

export function buildEagleChain(
  head: EagleHead,
  length: number,
  choose: TokenChooser = chooseBest(head.vocabularies.targetTokens),
): NamedTensors {
  const { configuration } = head;
  const states = joinLanes(input('states', [row, lanes, head.stateWidth]));
  const tokens = input('tokens', [row, lanes], 'int32');
  const [past] = declarePast(configuration);
  const context = declareAttention(configuration);
  const embed = (ids: Tensor): Tensor => joinLanes(gatherRows(head.embedding, ids));

  const first = head.step(head.fuse(states), embed(tokens), context, { past });
  let feature = selectRows(first.features, 1); // [1, lanes, hidden]
  const chosen = [choose(head.score(feature))];
  let earlier: KeyValueRows = first.rows;
  for (const level of declareChainContexts(context, length - 1, configuration.headSize)) {
    const embedded = embed(chosen.at(-1)!.token);
    const step = head.step(joinLanes(feature), embedded, level, { past, earlier });
    earlier = joinRows(earlier, step.rows);
    feature = partLanes(step.features, 1);
    chosen.push(choose(head.score(feature)));
  }
  return chainOutputs(chosen, stackRows([first.rows], configuration));
}
