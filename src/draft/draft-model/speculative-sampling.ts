/**
 * Plain speculative sampling (arXiv 2211.17192, 2302.01318): a small language model with the target's vocabulary and
 * a cache of its own. If sizes differ, the common ids are the draft vocabulary.
 */
import type { CacheOptions } from '../../checkpoint/cache/weight-cache.js';
import type { Checkpoint } from '../../checkpoint/stored-tensor.js';
import { MistletoeError } from '../../core/errors.js';
import { lazily } from '../../core/lazy.js';
import { input } from '../../graph/operations/leaves.js';
import { slice } from '../../graph/operations/shaping.js';
import type { Tensor } from '../../graph/tensor.js';
import { rowNumbers } from '../../model/attention-inputs.js';
import type { KvCache } from '../../model/cache/kv-cache.js';
import type { CausalModel } from '../../model/causal-model.js';
import { createModel } from '../../model/causal-model.js';
import { parseConfiguration } from '../../model/configuration.js';
import type { KeyValueRows } from '../../model/decoder-layer.js';
import { joinRows } from '../../model/decoder-layer.js';
import { embeddingTable, embedTokens, projectToVocabulary, runDecoder } from '../../model/decoder.js';
import { contextError } from '../../model/forward.js';
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
import type { LaneProgram, PassScheduler } from '../../model/lanes/lane-program.js';
import { compileLanes, runDirectly } from '../../model/lanes/lane-program.js';
import type { NamedTensors, NamedValues } from '../../runtime/program.js';
import { bufferOf, int32 } from '../../runtime/program.js';
import type {
  DraftGraph,
  DraftSession,
  DraftedLogits,
  Drafter,
  TeacherForcing,
  VerifiedTokens,
} from '../drafter.js';
import { DraftMemory } from '../programs/draft-memory.js';
import type { FusedPrograms, VerifiedGraph } from '../programs/fused-drafts.js';
import { createFusedPrograms, draftFused, prepareFused } from '../programs/fused-drafts.js';
import type { PreparedDrafts } from '../programs/program-drafts.js';
import type { Vocabularies } from '../programs/scores.js';
import { readScores, scoreNames, scoreOutputs } from '../programs/scores.js';
import { dropFirst } from '../programs/states.js';
import { countParameters } from '../reading/checks.js';
import type { TokenizerPair } from './shared-vocabulary.js';
import { requireSameVocabulary, shareVocabulary } from './shared-vocabulary.js';

/** Logits over the tokens that may be proposed. [..., hidden] -> [..., draft vocabulary] */
type Projection = (features: Tensor) => Tensor;

/** Verified tokens first, then drafted ones. */
function readVerified({ configuration, scope }: CausalModel, project: Projection): VerifiedGraph {
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

export async function loadDraftModel(
  checkpoint: Checkpoint,
  target: CausalModel,
  tokenizers: TokenizerPair,
  options: CacheOptions,
): Promise<Drafter> {
  const { vocabularySize } = parseConfiguration(checkpoint.config, `config.json of ${checkpoint.folder}`);
  requireSameVocabulary(checkpoint.folder, tokenizers, {
    target: target.configuration.vocabularySize,
    drafter: vocabularySize,
  });
  const model = await createModel(checkpoint, { ...options, runtime: target.runtime, scope: 'draft.' });
  return new DraftModel(model, target);
}

class DraftModel implements Drafter {
  readonly system = 'speculative-sampling';
  readonly name = 'draft model';
  readonly reads = 'tokens';
  readonly taps = [];
  readonly maximumDepth = Infinity;
  readonly vocabularySize: number;
  readonly parameterCount: number;
  readonly graph: DraftGraph;
  private readonly vocabularies: Vocabularies;
  /** Positions it reads: its context, or a sliding window. */
  private readonly reach: number;
  private readonly compile: () => Promise<LaneProgram>;
  private readonly wholes: FusedPrograms;

  constructor(
    private readonly model: CausalModel,
    target: CausalModel,
  ) {
    if (target.scope === model.scope)
      throw new MistletoeError('drafter', `Target and drafter share the scope "${model.scope}".`);
    const { contextLength, slidingWindow } = model.configuration;
    this.vocabularies = shareVocabulary(target.configuration, model.configuration);
    this.vocabularySize = this.vocabularies.draftSize;
    this.reach = Math.min(contextLength, slidingWindow ?? Infinity);
    this.parameterCount = countParameters(model.weights);
    this.compile = lazily(() => compileLanes(model.runtime, 'draft', this.buildGraph(), [model.weights]));
    const project = (features: Tensor): Tensor => this.project(features);
    const { vocabularies } = this;
    const { headSize } = model.configuration;
    this.wholes = createFusedPrograms(model.runtime, [model.weights], { vocabularies, headSize }, () =>
      readVerified(model, project),
    );
    this.graph = {
      weights: [model.weights],
      targetTokens: this.vocabularies.targetTokens,
      attention: {
        sizes: model.configuration,
        rotary: model.rotary,
        window: slidingWindow,
        readPrefix: (verified, cache) => this.readPrefix(verified, cache),
      },
      draftLogits: (teacher, depth) => this.draftLogits(teacher, depth),
    };
  }

  /** Over the common tokens. [..., hidden] -> [..., draft vocabulary] */
  private project(features: Tensor): Tensor {
    const { configuration, scope } = this.model;
    const logits = projectToVocabulary(configuration, scope, features);
    return this.vocabularySize === configuration.vocabularySize
      ? logits
      : slice(logits, -1, 0, this.vocabularySize);
  }

  /** Every depth reads the same pass: along known tokens the model sees exactly the text. */
  private draftLogits(teacher: TeacherForcing, depth: number): DraftedLogits {
    const { configuration, scope } = this.model;
    const embeddings = teacher.embedWith(embeddingTable(configuration, scope));
    const { context, past } = teacher;
    const decoded = runDecoder(configuration, scope, embeddings, { context, past });
    const scored = dropFirst(dropFirst(decoded.features, 1), teacher.firstRow);
    const all = this.project(scored);
    const logits = Array.from({ length: depth }, (_, level) => dropFirst(all, level));
    return { logits, rows: decoded.rows };
  }

  async prepare(drafts?: PreparedDrafts): Promise<void> {
    await Promise.all([this.compile(), prepareFused(this.wholes, drafts)]);
  }

  private buildGraph(): NamedTensors {
    const { configuration, scope } = this.model;
    const tokens = input('tokens', [row, lanes], 'int32');
    const embeddings = joinLanes(embedTokens(configuration, scope, tokens));
    const options = { context: declareAttention(configuration), past: declarePast(configuration) };
    const decoded = runDecoder(configuration, scope, embeddings, options);
    return {
      ...scoreOutputs(this.project(selectRows(decoded.features)), this.model.runtime),
      rows: stackRows(decoded.rows, configuration),
    };
  }

  /** The newest token is the root of the next draft. */
  private createMemory(cache: KvCache, scheduler: PassScheduler): DraftMemory {
    const inputsOf = (_: unknown, tokens: Int32Array): NamedValues => ({ tokens: int32(tokens) });
    return new DraftMemory({ cache, rotary: this.model.rotary, stateWidth: 0, scheduler, inputsOf });
  }

  private async readPrefix(verified: VerifiedTokens, cache: KvCache): Promise<void> {
    const { contextLength, vocabularySize } = this.model.configuration;
    const unknown = verified.tokens.find((token) => token >= vocabularySize);
    if (unknown !== undefined) throw unknownToken(unknown, this.model);
    const memory = this.createMemory(cache, runDirectly);
    memory.observe(verified);
    if (memory.length - 1 > contextLength) throw contextError(memory.length - 1, this.model.configuration);
    await memory.catchUp(await this.compile());
  }

  startSession(scheduler: PassScheduler = runDirectly): DraftSession {
    const { reach, vocabularies, compile } = this;
    const { vocabularySize } = this.model.configuration;
    const memory = this.createMemory(this.model.createCache(), scheduler);
    let unknown: number | undefined; // a token of the text that the drafter has no embedding for
    const requireKnown = (): void => {
      if (unknown !== undefined) throw unknownToken(unknown, this.model);
    };

    return {
      get room() {
        return reach - Math.max(1, memory.length); // the root takes a place before it is known, too
      },
      observe(verified) {
        unknown ??= [...verified.tokens, verified.next].find((token) => token >= vocabularySize);
        memory.observe(verified);
      },
      async catchUp() {
        if (unknown === undefined) await memory.catchUp(await compile()); // else the first draft says so
      },
      async expand(draft, nodes, want) {
        const program = await compile();
        const names = [...scoreNames(want), 'rows'];
        const depth = draft.depths[nodes[0]!]!;
        if (depth === 0) {
          requireKnown();
          return readScores(await memory.read(program, names), want, vocabularies);
        }
        const tokens = int32(nodes.map((node) => draft.tokens[node]!));
        const select = rowNumbers(nodes.map((_, row) => row));
        const inputs = { tokens, select, ...memory.attention.draftedInputs(draft, nodes, depth - 1) };
        const outputs = await memory.run(program, inputs, names);
        const rows = bufferOf(outputs, 'rows');
        memory.attention.keepDrafted(rows, nodes);
        rows.free();
        return readScores(outputs, want, vocabularies);
      },
      ...draftFused(this.wholes, {
        memory,
        rotary: this.model.rotary,
        scheduler,
        reader: () => {
          requireKnown();
          return compile();
        },
      }),
      close() {
        memory.close();
      },
    };
  }
}

function unknownToken(token: number, { name, configuration }: CausalModel): MistletoeError {
  return new MistletoeError(
    'drafter',
    `The text holds token ${token}; the draft model ${name} knows ${configuration.vocabularySize} tokens.`,
    {
      hint: 'Only padding of the target has such ids: they stand for no text, and no draft model of its tokenizer knows them.',
    },
  );
}
