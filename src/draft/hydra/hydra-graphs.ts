/** Hydra's heads and Hydra++'s layer as graphs. */
import type { Tensor } from '../../graph/tensor.js';
import { add, silu } from '../../graph/operations/elementwise.js';
import { gatherRows } from '../../graph/operations/indexing.js';
import { input } from '../../graph/operations/leaves.js';
import { broadcast, concatenate, reshape } from '../../graph/operations/shaping.js';
import type { CausalModel } from '../../model/causal-model.js';
import { embeddingTable } from '../../model/decoder.js';
import type { AttentionContext, AttentionMemory } from '../../model/decoder-layer.js';
import { normalise, project, runLayer } from '../../model/decoder-layer.js';
import {
  declareAttention,
  declarePast,
  joinLanes,
  lanes,
  row,
  selectRows,
  stackRows,
} from '../../model/lanes/lane-graph.js';
import type { NamedTensors } from '../../runtime/program.js';
import { chainOutputs, chooseBest } from '../programs/chain-program.js';
import type { DraftedLogits, TeacherForcing } from '../drafter.js';
import type { HydraSizes } from './hydra-layout.js';
import { dropFirst, dropLast } from '../programs/states.js';
import { scoreOutputs } from '../programs/scores.js';

export const hydraScope = 'hydra.';

export interface HydraModel {
  readonly sizes: HydraSizes;
  readonly target: CausalModel;
}

/** features [..., hidden], embeddings [..., (head + 1) * hidden] -> [..., vocabulary] */
function runHead({ sizes, target }: HydraModel, head: number, features: Tensor, embeddings: Tensor): Tensor {
  const { hiddenSize, vocabularySize } = target.configuration;
  const name = `${hydraScope}${head}`;
  const width = (head + 2) * hiddenSize;
  const joined = concatenate([features, embeddings], -1);
  const first = silu(project(joined, `${name}.first`, width, hiddenSize, true));
  let hidden = add(project(joined, `${name}.residual`, width, hiddenSize, true), first);
  for (let block = 0; block < sizes.extraBlocks; block++) {
    hidden = add(hidden, silu(project(hidden, `${name}.block${block}`, hiddenSize, hiddenSize, true)));
  }
  return project(hidden, `${name}.lm_head`, hiddenSize, vocabularySize, true);
}

/** [batch, position, hidden] */
function runPrefix(
  { target }: HydraModel,
  features: Tensor,
  context: AttentionContext,
  memory: AttentionMemory,
) {
  const { configuration } = target;
  const layer = runLayer(features, `${hydraScope}prefix`, configuration, context, memory);
  return { features: normalise(layer.hidden, `${hydraScope}prefix.norm`, configuration), rows: layer.rows };
}

export function draftHydraLogits(model: HydraModel, teacher: TeacherForcing, depth: number): DraftedLogits {
  const prefix = model.sizes.hasPrefix
    ? runPrefix(model, teacher.features, teacher.context, { past: teacher.past?.[0] })
    : undefined;
  const features = prefix?.features ?? teacher.features;
  const embeddings = teacher.embedWith(embeddingTable(model.target.configuration, model.target.scope));
  const logits = Array.from({ length: depth }, (_, head) => {
    const seen = Array.from({ length: head + 1 }, (_, ahead) =>
      dropLast(dropFirst(dropFirst(embeddings, ahead + 1), teacher.firstRow), head - ahead),
    );
    return runHead(
      model,
      head,
      dropFirst(dropLast(features, head + 1), teacher.firstRow),
      concatenate(seen, -1),
    );
  });
  return { logits, rows: prefix === undefined ? [] : [prefix.rows] };
}

export function buildHydraHead(model: HydraModel, head: number): NamedTensors {
  const { configuration, scope: targetScope } = model.target;
  const { hiddenSize } = configuration;
  const width = head + 1;
  const path = input('path', [row, lanes, width], 'int32');
  const feature = input('feature', [1, lanes, hiddenSize]);
  const embedded = gatherRows(embeddingTable(configuration, targetScope), path);
  const embeddings = reshape(embedded, [row, lanes, width * hiddenSize]);
  const logits = runHead(model, head, broadcast(feature, [row, lanes, hiddenSize]), embeddings);
  return scoreOutputs(logits, model.target.runtime);
}

export function buildHydraChain(model: HydraModel, length: number): NamedTensors {
  const { configuration, scope: targetScope } = model.target;
  const feature = input('feature', [1, lanes, configuration.hiddenSize]);
  const embed = (token: Tensor): Tensor => gatherRows(embeddingTable(configuration, targetScope), token);
  const path = [embed(input('root', [1, lanes], 'int32'))];
  const choose = chooseBest(undefined);
  const chosen = Array.from({ length }, (_, head) => {
    const best = choose(runHead(model, head, feature, concatenate([...path], -1)));
    path.push(embed(best.token));
    return best;
  });
  return chainOutputs(chosen);
}

export function buildHydraPrefix(model: HydraModel): NamedTensors {
  const { configuration } = model.target;
  const features = joinLanes(input('features', [row, lanes, configuration.hiddenSize]));
  const sizes = { ...configuration, layerCount: 1 };
  const [past] = declarePast(sizes);
  const prefix = runPrefix(model, features, declareAttention(configuration), { past });
  return { features: selectRows(prefix.features), rows: stackRows([prefix.rows], sizes) };
}
