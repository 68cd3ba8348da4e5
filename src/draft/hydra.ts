/**
 * Hydra (arXiv 2402.05109): heads that also see the tokens drafted before them. Head i reads the target's feature and
 * the embeddings of the root and of i drafted tokens, [h, e(x1), ..., e(x_i+1)], through R z + SiLU(W z + b), plain
 * residual blocks and a projection with bias. Hydra++ first passes the features of all verified positions through a
 * transformer layer of its own.
 */
import type { Checkpoint } from '../checkpoint/stored-tensor.js';
import type { CacheOptions } from '../checkpoint/weight-cache.js';
import { prepareWeights } from '../checkpoint/weight-cache.js';
import type { Tensor } from '../graph/tensor.js';
import { add, silu } from '../graph/operations/elementwise.js';
import { gatherRows } from '../graph/operations/indexing.js';
import { input } from '../graph/operations/leaves.js';
import { broadcast, concatenate, reshape } from '../graph/operations/shaping.js';
import { attentionInputs } from '../model/attention-inputs.js';
import type { CausalModel } from '../model/causal-model.js';
import { embeddingTable } from '../model/decoder.js';
import type { AttentionContext, AttentionMemory } from '../model/decoder-layer.js';
import { normalise, project, runLayer } from '../model/decoder-layer.js';
import { KvCache } from '../model/kv-cache.js';
import type { LaneProgram } from '../model/lane-program.js';
import {
  compileLanes,
  declareAttention,
  declarePast,
  joinLanes,
  lanes,
  partLanes,
  row,
  stackRows,
} from '../model/lane-program.js';
import type { Meeting } from '../model/meeting.js';
import { alone } from '../model/meeting.js';
import type { NamedTensors } from '../runtime/program.js';
import { float32, floatsOf, int32 } from '../runtime/program.js';
import type { WeightStore } from '../runtime/weights.js';
import { chainNames, chainOutputs, chooseToken, createChainCompiler, readChain } from './chain-program.js';
import { countParameters } from './checks.js';
import type {
  DraftedLogits,
  Drafter,
  DraftGraph,
  DraftSession,
  GrowingDraft,
  TeacherForcing,
} from './drafter.js';
import type { HydraSizes } from './hydra-layout.js';
import { hydraScope, readHydraLayout } from './hydra-layout.js';
import { dropFirst, dropLast } from './positions.js';
import { readScores, scoreNames, scoreOutputs } from './scores.js';
import { PendingStates } from './states.js';
import { listUnread, refuseUnread } from './unread-tensors.js';

const ingestChunk = 256;

export async function loadHydra(
  checkpoint: Checkpoint,
  target: CausalModel,
  options: CacheOptions,
): Promise<Drafter> {
  const { sizes, recipes } = readHydraLayout(checkpoint, target);
  // The prefix layer is given embeddings; its copy of the target's table is never looked at.
  const unneeded = [/^prefix_embeding_layer\.embed_tokens\.weight$/];
  refuseUnread(checkpoint.folder, listUnread(checkpoint, recipes, unneeded));
  return new Hydra(sizes, target, await prepareWeights(checkpoint, recipes, options));
}

class Hydra implements Drafter {
  readonly system = 'hydra';
  readonly name: string;
  readonly reads = 'features';
  readonly taps = [];
  readonly maximumDepth: number;
  readonly vocabularySize: number;
  readonly parameterCount: number;
  readonly graph: DraftGraph;
  private readonly cacheSizes;
  private readonly headPrograms: Promise<LaneProgram>[] = [];
  private readonly compileChain: (length: number) => Promise<LaneProgram>;
  private prefixProgram: Promise<LaneProgram> | undefined;

  constructor(
    private readonly sizes: HydraSizes,
    private readonly target: CausalModel,
    private readonly weights: WeightStore,
  ) {
    const { configuration } = target;
    this.name = sizes.hasPrefix ? 'Hydra++' : 'Hydra';
    this.maximumDepth = sizes.heads;
    this.vocabularySize = configuration.vocabularySize;
    this.parameterCount = countParameters(weights);
    this.cacheSizes = { ...configuration, layerCount: 1 };
    const stores = [weights, target.weights];
    this.compileChain = createChainCompiler(target.runtime, stores, (length) => this.buildChain(length));
    this.graph = {
      weights: stores,
      targetTokens: undefined,
      attention: sizes.hasPrefix
        ? {
            sizes: this.cacheSizes,
            rotary: target.rotary,
            readPrefix: async (verified, cache) => {
              const pending = new PendingStates(configuration.hiddenSize);
              pending.push(verified);
              await this.readPrefix(alone, pending, cache);
            },
          }
        : undefined,
      draftLogits: (teacher, depth) => this.draftLogits(teacher, depth),
    };
  }

  /** features [..., hidden], embeddings [..., (head + 1) * hidden] -> [..., vocabulary] */
  private runHead(head: number, features: Tensor, embeddings: Tensor): Tensor {
    const { hiddenSize, vocabularySize } = this.target.configuration;
    const name = `${hydraScope}${head}`;
    const width = (head + 2) * hiddenSize;
    const joined = concatenate([features, embeddings], -1);
    const first = silu(project(joined, `${name}.first`, width, hiddenSize, true));
    let hidden = add(project(joined, `${name}.residual`, width, hiddenSize, true), first);
    for (let block = 0; block < this.sizes.extraBlocks; block++) {
      hidden = add(hidden, silu(project(hidden, `${name}.block${block}`, hiddenSize, hiddenSize, true)));
    }
    return project(hidden, `${name}.lm_head`, hiddenSize, vocabularySize, true);
  }

  /** features [batch, position, hidden] through Hydra++'s own layer. */
  private runPrefix(features: Tensor, context: AttentionContext, memory: AttentionMemory) {
    const { configuration } = this.target;
    const layer = runLayer(features, `${hydraScope}prefix`, configuration, context, memory);
    return { features: normalise(layer.hidden, `${hydraScope}prefix.norm`, configuration), rows: layer.rows };
  }

  private draftLogits(teacher: TeacherForcing, depth: number): DraftedLogits {
    const prefix = this.sizes.hasPrefix
      ? this.runPrefix(teacher.features, teacher.context, { past: teacher.past?.[0] })
      : undefined;
    const features = prefix?.features ?? teacher.features;
    const embeddings = teacher.embedWith(embeddingTable(this.target.configuration, this.target.scope));
    const logits = Array.from({ length: depth }, (_, head) => {
      const seen = Array.from({ length: head + 1 }, (_, ahead) =>
        dropLast(dropFirst(dropFirst(embeddings, ahead + 1), teacher.firstRow), head - ahead),
      );
      return this.runHead(
        head,
        dropFirst(dropLast(features, head + 1), teacher.firstRow),
        concatenate(seen, -1),
      );
    });
    return { logits, rows: prefix === undefined ? [] : [prefix.rows] };
  }

  async prepare(chains: readonly number[] = []): Promise<void> {
    for (const length of chains) await this.compileChain(length);
    for (let head = 0; head < this.sizes.heads; head++) await this.compileHead(head);
    if (this.sizes.hasPrefix) await this.compilePrefix();
  }

  private compileHead(head: number): Promise<LaneProgram> {
    const { runtime, weights } = this.target;
    const stores = [this.weights, weights];
    return (this.headPrograms[head] ??= compileLanes(runtime, 'draft', this.buildHead(head), stores));
  }

  private buildHead(head: number): NamedTensors {
    const { configuration, scope: targetScope } = this.target;
    const { hiddenSize } = configuration;
    const width = head + 1;
    const path = input('path', [row, lanes, width], 'int32');
    const feature = input('feature', [1, lanes, hiddenSize]);
    const embedded = gatherRows(embeddingTable(configuration, targetScope), path);
    const embeddings = reshape(embedded, [row, lanes, width * hiddenSize]);
    return scoreOutputs(this.runHead(head, broadcast(feature, [row, lanes, hiddenSize]), embeddings));
  }

  private buildChain(length: number): NamedTensors {
    const { configuration, scope: targetScope } = this.target;
    const feature = input('feature', [1, lanes, configuration.hiddenSize]);
    const embed = (token: Tensor): Tensor => gatherRows(embeddingTable(configuration, targetScope), token);
    const path = [embed(input('root', [1, lanes], 'int32'))];
    const chosen = Array.from({ length }, (_, head) => {
      const best = chooseToken(this.runHead(head, feature, concatenate([...path], -1)), undefined);
      path.push(embed(best.token));
      return best;
    });
    return chainOutputs(chosen);
  }

  private compilePrefix(): Promise<LaneProgram> {
    const { runtime } = this.target;
    return (this.prefixProgram ??= compileLanes(runtime, 'draft', this.buildPrefix(), [this.weights]));
  }

  private buildPrefix(): NamedTensors {
    const { configuration } = this.target;
    const features = joinLanes(input('features', [row, lanes, configuration.hiddenSize]));
    const [past] = declarePast(this.cacheSizes);
    const prefix = this.runPrefix(features, declareAttention(configuration), { past });
    return { features: partLanes(prefix.features), rows: stackRows([prefix.rows], this.cacheSizes) };
  }

  /** Passes pending features through Hydra++'s layer; returns the newest, which the heads read. [hidden] */
  private async readPrefix(
    meeting: Meeting,
    pending: PendingStates,
    cache: KvCache,
    leave = 0,
  ): Promise<Float32Array> {
    const { hiddenSize } = this.target.configuration;
    const program = await this.compilePrefix();
    let newest: Float32Array = new Float32Array(hiddenSize);
    const read = async (states: Float32Array, { length }: Int32Array): Promise<void> => {
      const inputs = {
        features: float32(states, [length, hiddenSize]),
        ...attentionInputs({ count: length, pastLength: cache.pastLength }, this.target.rotary),
      };
      const outputs = await meeting.run(program, { inputs, cache }, ['features', 'rows']);
      cache.appendAll(floatsOf(outputs, 'rows'), length);
      newest = floatsOf(outputs, 'features').slice(-hiddenSize);
    };
    await pending.drain(ingestChunk, read, leave);
    return newest;
  }

  startSession(meeting: Meeting = alone): DraftSession {
    const { hiddenSize, vocabularySize } = this.target.configuration;
    const pending = new PendingStates(hiddenSize);
    const cache = new KvCache(this.cacheSizes);
    let feature: Float32Array = new Float32Array(hiddenSize);
    let root = 0;
    const readFeature = async (): Promise<Float32Array> =>
      this.sizes.hasPrefix ? this.readPrefix(meeting, pending, cache) : pending.takeLast();

    return {
      room: Infinity,
      observe: (verified) => {
        pending.push(verified);
        root = verified.next;
      },
      catchUp: async () => {
        if (this.sizes.hasPrefix) await this.readPrefix(meeting, pending, cache, 1);
      },
      expand: async (draft, nodes, want) => {
        const depth = draft.depths[nodes[0]!]!;
        if (depth === 0) feature = await readFeature();
        const program = await this.compileHead(depth);
        const paths = nodes.flatMap((node) => tokensTo(draft, node));
        const inputs = {
          feature: float32(feature, [1, hiddenSize]),
          path: int32(paths, [nodes.length, depth + 1]),
        };
        const outputs = await meeting.run(program, { inputs }, scoreNames(want));
        return readScores(outputs, want, { targetSize: vocabularySize, draftSize: vocabularySize });
      },
      draftChain: async (length) => {
        const program = await this.compileChain(length);
        const feature = float32(await readFeature(), [1, hiddenSize]);
        const inputs = { feature, root: int32([root]) };
        return readChain(await meeting.run(program, { inputs }, chainNames));
      },
      close() {
        cache.release();
      },
    };
  }
}

/** Tokens from the root to a node, both included. */
function tokensTo({ tokens, parents }: GrowingDraft, node: number): number[] {
  const path: number[] = [];
  for (let at = node; at >= 0; at = parents[at]!) path.unshift(tokens[at]!);
  return path;
}
