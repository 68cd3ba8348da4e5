/** A greedy EAGLE chain in one program: the verified states first, then one predicted feature after the other. */
import { subtractDimensions, symbol } from '../graph/dimension.js';
import { gatherRows } from '../graph/operations/indexing.js';
import { input } from '../graph/operations/leaves.js';
import { reshape, slice } from '../graph/operations/shaping.js';
import { declareAttention, declarePast, stackRows } from '../model/causal-model.js';
import type { KeyValueRows } from '../model/decoder-layer.js';
import { joinRows } from '../model/decoder-layer.js';
import type { NamedTensors } from '../runtime/program.js';
import { chainOutputs, chooseToken, declareChainContexts } from './chain-program.js';
import type { EagleHead } from './eagle-session.js';

export function buildEagleChain(head: EagleHead, length: number): NamedTensors {
  const { configuration, vocabularies } = head;
  const { hiddenSize, headSize } = configuration;
  const row = symbol('row');
  const states = input('states', [1, row, head.stateWidth]);
  const tokens = input('tokens', [row], 'int32');
  const [past] = declarePast(configuration);
  const context = declareAttention(configuration);
  const embed = (ids: typeof tokens) =>
    reshape(gatherRows(head.embedding, ids), [1, ids.shape[0]!, hiddenSize]);

  const first = head.step(head.fuse(states), embed(tokens), context, { past });
  let feature = slice(first.features, 1, subtractDimensions(row, 1));
  const choose = () =>
    chooseToken(
      reshape(head.score(reshape(feature, [1, hiddenSize])), [1, vocabularies.draftSize]),
      vocabularies.targetTokens,
    );
  const chosen = [choose()];
  let earlier: KeyValueRows = first.rows;
  for (const level of declareChainContexts(context, length - 1, headSize)) {
    const embedded = embed(chosen.at(-1)!.token);
    const step = head.step(feature, embedded, level, { past, earlier });
    earlier = joinRows(earlier, step.rows);
    feature = step.features;
    chosen.push(choose());
  }
  return chainOutputs(chosen, stackRows([first.rows], configuration));
}
