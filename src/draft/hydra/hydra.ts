/**
 * Hydra (arXiv 2402.05109): head i reads the target's feature and the embeddings of the root and i drafted tokens,
 * [h, e(x1), ..., e(x_i+1)], through R z + SiLU(W z + b), residual blocks and a projection with bias. Hydra++ first
 * passes features through a transformer layer of its own.
 */
import type { Checkpoint } from '../../checkpoint/stored-tensor.js';
import { lazily, lazilyBy } from '../../core/promises.js';
import { add, silu } from '../../graph/operations/elementwise.js';
import { gatherRows } from '../../graph/operations/indexing.js';
import { input, type Tensor } from '../../graph/tensor.js';
import { broadcast, concatenate, reshape } from '../../graph/operations/shaping.js';
import { KvCache } from '../../model/cache/kv-cache.js';
import type { CausalModel } from '../../model/causal-model.js';
import type { AttentionContext, AttentionMemory } from '../../model/decoder.js';
import { normalise, project, runLayer, embeddingTable } from '../../model/decoder.js';
import * as lane from '../../model/lanes/lane-graph.js';
import { compileLanes, runDirectly, type PassScheduler } from '../../model/lanes/lane-program.js';
import { bufferOf, int32, resident, type NamedTensors } from '../../runtime/program.js';
import type { RowBuffer } from '../../runtime/row-buffer.js';
import { type DrafterOptions, type DraftSystem } from '../draft-system.js';
import { type DraftedLogits, type Drafter, noSuggestion, type TeacherForcing } from '../drafter.js';
import { chainOutputs, createChains, type TokenChooser } from '../programs/chain-program.js';
import { DraftMemory } from '../programs/draft-memory.js';
import { readScores, scoreNames, scoreOutputs } from '../programs/scores.js';
import { dropFirst, dropLast, PendingStates } from '../programs/states.js';
import { draftByLevels, type Expand, type GrowingDraft } from '../tree/grow-tree.js';
import { countParameters, prepareDrafterWeights, requireWidth } from '../reading/checks.js';
import type { HydraSizes } from './hydra-layout.js';
import { createHydra, describeHydra, recogniseHydra, requireGroundedHeads, scope } from './hydra-layout.js';

interface HydraModel {
  readonly sizes: HydraSizes;
  readonly target: CausalModel;
}

/** features [..., hidden], embeddings [..., (head + 1) * hidden] -> [..., vocabulary] */
function runHead({ sizes, target }: HydraModel, head: number, features: Tensor, embeddings: Tensor): Tensor {
  const { hiddenSize, vocabularySize } = target.configuration;
  const name = `${scope}${head}`;
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
  const layer = runLayer(features, `${scope}prefix`, configuration, context, memory);
  return { features: normalise(layer.hidden, `${scope}prefix.norm`, configuration), rows: layer.rows };
}

function draftHydraLogits(model: HydraModel, teacher: TeacherForcing, depth: number): DraftedLogits {
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

function buildHydraHead(model: HydraModel, head: number): NamedTensors {
  const { configuration, scope: targetScope } = model.target;
  const { hiddenSize } = configuration;
  const width = head + 1;
  const path = input('path', [lane.row, lane.lanes, width], 'int32');
  const feature = input('feature', [1, lane.lanes, hiddenSize]);
  const embedded = gatherRows(embeddingTable(configuration, targetScope), path);
  const embeddings = reshape(embedded, [lane.row, lane.lanes, width * hiddenSize]);
  const logits = runHead(model, head, broadcast(feature, [lane.row, lane.lanes, hiddenSize]), embeddings);
  return scoreOutputs(logits, model.target.runtime);
}

function buildHydraChain(model: HydraModel, length: number, choose: TokenChooser): NamedTensors {
  const { configuration, scope: targetScope } = model.target;
  const feature = input('feature', [1, lane.lanes, configuration.hiddenSize]);
  const embed = (token: Tensor): Tensor => gatherRows(embeddingTable(configuration, targetScope), token);
  const path = [embed(input('root', [1, lane.lanes], 'int32'))];
  const chosen = Array.from({ length }, (_, head) => {
    const best = choose(runHead(model, head, feature, concatenate([...path], -1)));
    path.push(embed(best.token));
    return best;
  });
  return chainOutputs(chosen);
}

function buildHydraPrefix(model: HydraModel): NamedTensors {
  const { configuration } = model.target;
  const features = lane.joinLanes(input('features', [lane.row, lane.lanes, configuration.hiddenSize]));
  const sizes = { ...configuration, layerCount: 1 };
  const [past] = lane.declarePast(sizes);
  const prefix = runPrefix(model, features, lane.declareAttention(configuration), { past });
  return { features: lane.selectRows(prefix.features), rows: lane.stackRows([prefix.rows], sizes) };
}

export const hydra: DraftSystem = {
  name: 'hydra',
  title: 'Hydra',
  recognise: recogniseHydra,
  describe: describeHydra,
  load: loadHydra,
  training: {
    sizes: ['heads', 'layers', 'prefixLayer'],
    settings: (heads) => ({ depth: heads, weightDecay: 0.1 }),
    create: createHydra,
    repeatedBlocks: /^(hydra\.\d+\.block)\d+(\.weight|\.bias)$/,
  },
};

async function loadHydra(checkpoint: Checkpoint, options: DrafterOptions): Promise<Drafter> {
  const { target } = options;
  const { configuration, runtime, rotary } = target;
  const { hiddenSize, vocabularySize } = configuration;
  const parts = describeHydra(checkpoint, { target: configuration });
  const { sizes } = parts;
  requireWidth(checkpoint, parts.firstOutput, 0, vocabularySize);
  requireGroundedHeads(checkpoint, sizes, hiddenSize);
  const weights = await prepareDrafterWeights(checkpoint, parts, options);
  const model = { sizes, target };
  const stores = [weights, target.weights];
  const cacheSizes = { ...configuration, layerCount: 1 };
  const vocabularies = { targetSize: vocabularySize, draftSize: vocabularySize };
  const compileHead = lazilyBy((head: number) => compileLanes(runtime, buildHydraHead(model, head), stores));
  const compiledChains = createChains({ runtime, weights: stores, vocabularies }, (length, choose) =>
    buildHydraChain(model, length, choose),
  );
  const compilePrefix = lazily(() => compileLanes(runtime, buildHydraPrefix(model), [weights]));
  const createMemory = (cache: KvCache, scheduler: PassScheduler): DraftMemory =>
    new DraftMemory({
      cache,
      rotary,
      stateWidth: hiddenSize,
      scheduler,
      inputsOf: (features) => ({ features: resident(features) }),
    });
  return {
    system: hydra.name,
    name: sizes.hasPrefix ? 'Hydra++' : 'Hydra',
    reads: 'features',
    taps: [],
    maximumDepth: sizes.heads,
    vocabularySize,
    parameterCount: countParameters(weights),
    graph: {
      weights: stores,
      targetTokens: undefined,
      attention: sizes.hasPrefix
        ? {
            sizes: cacheSizes,
            rotary,
            readPrefix: async (verified, cache) =>
              createMemory(cache, runDirectly).readPrefix(verified, await compilePrefix()),
          }
        : undefined,
      draftLogits: (teacher, depth) => draftHydraLogits(model, teacher, depth),
    },
    async prepare(drafts = {}) {
      await compiledChains.prepare(drafts);
      for (let head = 0; head < sizes.heads; head++) await compileHead(head);
      if (sizes.hasPrefix) await compilePrefix();
    },
    startSession(scheduler = runDirectly) {
      const pending = new PendingStates(runtime, hiddenSize);
      const memory = sizes.hasPrefix ? createMemory(new KvCache(cacheSizes, runtime), scheduler) : undefined;
      let feature: RowBuffer = runtime.allocate(1, hiddenSize);
      let root = 0;
      const readFeature = async (): Promise<void> => {
        feature.free();
        feature =
          memory === undefined
            ? pending.takeLast()
            : bufferOf(await memory.read(await compilePrefix(), ['features', 'rows']), 'features');
      };
      const expand: Expand = async (draft, nodes, want) => {
        const depth = draft.depths[nodes[0]!]!;
        if (depth === 0) await readFeature();
        const program = await compileHead(depth);
        const paths = nodes.flatMap((node) => tokensTo(draft, node));
        const inputs = { feature: resident(feature), path: int32(paths, [nodes.length, depth + 1]) };
        return readScores(await scheduler.run(program, { inputs }, scoreNames(want)), want, vocabularies);
      };
      const draws = compiledChains.start(scheduler, async (program, names, _, { drawn = {} } = {}) => {
        await readFeature();
        const inputs = { feature: resident(feature), root: int32([root]), ...drawn };
        return scheduler.run(program, { inputs }, names);
      });
      return {
        room: Infinity,
        observe(verified) {
          if (memory === undefined) pending.push(verified);
          else memory.observe(verified);
          root = verified.next;
        },
        async catchUp() {
          if (memory !== undefined) await memory.catchUp(await compilePrefix());
        },
        ...draftByLevels({ expand, ...draws }),
        suggest: () => noSuggestion,
        close() {
          feature.free();
          pending.close();
          memory?.close();
        },
      };
    },
  };
}

/** From the root to a node, both included. */
function tokensTo({ tokens, parents }: GrowingDraft, node: number): number[] {
  const path: number[] = [];
  for (let at = node; at >= 0; at = parents[at]!) path.unshift(tokens[at]!);
  return path;
}
