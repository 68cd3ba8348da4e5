/** A checkpoint ready to run: one program for prefill, decoding and verification. */
import { basename } from 'node:path';
import { openCheckpoint } from '../checkpoint/open-checkpoint.js';
import type { Checkpoint } from '../checkpoint/stored-tensor.js';
import { prepareWeights, type CacheOptions } from '../checkpoint/cache/weight-cache.js';
import { MistletoeError } from '../core/errors.js';
import { argmax } from '../graph/operations/indexing.js';
import { input } from '../graph/tensor.js';
import { sum } from '../graph/operations/reductions.js';
import { concatenate } from '../graph/operations/shaping.js';
import { createRuntime } from '../runtime/create-runtime.js';
import type { MixedValues, NamedTensors, Runtime } from '../runtime/program.js';
import { bufferOf, floatsOf, int32, integersOf, pickRows, resident } from '../runtime/program.js';
import type { RowBuffer } from '../runtime/row-buffer.js';
import type { WeightStore } from '../runtime/weights.js';
import { attentionInputs, rowNumbers } from './attention-inputs.js';
import { parseConfiguration, type ModelConfiguration } from './configuration.js';
import { embedTokens, projectToVocabulary, runDecoder } from './decoder.js';
import type { ForwardRequest, ForwardResult, KeptScores } from './forward.js';
import { contextError, requireNumbers } from './forward.js';
import { KvCache } from './cache/kv-cache.js';
import { compileLanes, runDirectly, type LaneProgram } from './lanes/lane-program.js';
import * as lane from './lanes/lane-graph.js';
import { createRotary, type RotaryTable } from './rotary/rotary.js';
import {
  requireTiedOutput,
  decoderRecipes,
  describeUnknownTensors,
  findUnreadTensors,
  requireLayers,
} from './weights.js';
import { Sampler } from './lanes/sampler.js';

export interface LoadOptions extends CacheOptions {
  /** Default: a new one, owned by the model; dispose of `model.runtime` at the end. */
  readonly runtime?: Runtime | undefined;
  /** Prefix of weight names, so that several models fit into one program. */
  readonly scope?: string | undefined;
}

export async function loadModel(folder: string, options: LoadOptions = {}): Promise<CausalModel> {
  const checkpoint = await openCheckpoint(folder);
  return withRuntime(options.runtime, createRuntime, (runtime) =>
    createModel(checkpoint, { ...options, runtime }),
  );
}

export async function withRuntime<Result>(
  given: Runtime | undefined,
  create: () => Promise<Runtime>,
  use: (runtime: Runtime) => Promise<Result>,
): Promise<Result> {
  if (given !== undefined) return use(given);
  const runtime = await create();
  try {
    return await use(runtime);
  } catch (cause) {
    await runtime.dispose();
    throw cause;
  }
}

type ModelOptions = LoadOptions & { readonly runtime: Runtime };

export async function createModel(checkpoint: Checkpoint, options: ModelOptions): Promise<CausalModel> {
  const scope = options.scope ?? 'target.';
  const configuration = parseConfiguration(checkpoint.config, `config.json of ${checkpoint.folder}`);
  requireLayers(checkpoint, configuration);
  const recipes = decoderRecipes(configuration, scope);
  const unread = findUnreadTensors(checkpoint.tensors.keys(), recipes, configuration);
  const refusal = describeUnknownTensors(checkpoint.folder, unread, configuration);
  if (refusal !== undefined) throw refusal;
  await requireTiedOutput(checkpoint, configuration);
  const weights = await prepareWeights(checkpoint, recipes, options);
  return new CausalModel({
    name: basename(checkpoint.folder),
    configuration,
    scope,
    weights,
    runtime: options.runtime,
  });
}

interface ModelParts {
  readonly name: string;
  readonly configuration: ModelConfiguration;
  readonly scope: string;
  readonly weights: WeightStore;
  readonly runtime: Runtime;
}

interface TappedProgram {
  readonly program: Promise<LaneProgram>;
  readonly tapped: readonly number[];
}

export class CausalModel {
  readonly name: string;
  readonly configuration: ModelConfiguration;
  readonly scope: string;
  readonly weights: WeightStore;
  readonly runtime: Runtime;
  readonly rotary: RotaryTable;
  readonly sampler: Sampler;
  /** The last has the most taps. */
  private readonly programs: TappedProgram[] = [];

  constructor({ name, configuration, scope, weights, runtime }: ModelParts) {
    this.name = name;
    this.configuration = { ...configuration, cacheType: runtime.cacheType };
    this.scope = scope;
    this.weights = weights;
    this.runtime = runtime;
    this.rotary = createRotary(configuration);
    const { vocabularySize } = configuration;
    this.sampler = new Sampler(runtime, { targetSize: vocabularySize, draftSize: vocabularySize });
  }

  createCache(): KvCache {
    return new KvCache(this.configuration, this.runtime);
  }

  /** Runs new rows after the cache's past. The caller appends the rows to keep. */
  async forward(request: ForwardRequest): Promise<ForwardResult> {
    const { tokens, cache, parents, want, into } = request;
    const count = tokens instanceof Int32Array ? tokens.length : tokens.rowCount;
    const { contextLength, slidingWindow } = this.configuration;
    if (cache.length + count > contextLength && parents === undefined) {
      throw contextError(cache.length + count, this.configuration);
    }
    const { taps = [], scheduler = runDirectly } = request;
    const { program, tapped } = this.include(want.includes('taps') ? taps : []);
    const inputs: MixedValues = {
      tokens: tokens instanceof Int32Array ? int32(tokens) : resident(tokens, [count]),
      select: rowNumbers(request.select ?? Array.from({ length: count }, (_, row) => row)),
      ...attentionInputs(
        { count, pastLength: cache.pastLength, parents, window: slidingWindow },
        this.rotary,
      ),
    };
    const wantsScores = want.includes('logits') || want.includes('argmax');
    const names = ['rows', ...want, ...(wantsScores ? ['total'] : [])];
    const kept = into && { argmax: into.argmax, total: into.total, rows: into.rows };
    const outputs = await scheduler.run(await program, { inputs, cache, into: kept }, names);
    const isKept = outputs.argmax !== undefined && 'buffer' in outputs.argmax;
    if (wantsScores && !isKept) requireNumbers(this.name, floatsOf(outputs, 'total'), request);
    return {
      rows: bufferOf(outputs, 'rows'),
      ...(want.includes('logits') ? { logits: floatsOf(outputs, 'logits') } : {}),
      ...(want.includes('argmax') && !isKept ? { argmax: integersOf(outputs, 'argmax') } : {}),
      ...(want.includes('scores') ? { scores: this.keepScores(bufferOf(outputs, 'scores'), request) } : {}),
      ...(want.includes('features') ? { features: bufferOf(outputs, 'features') } : {}),
      ...(want.includes('taps') ? { taps: this.pickTaps(bufferOf(outputs, 'taps'), tapped, taps) } : {}),
    };
  }

  private keepScores(rows: RowBuffer, request: ForwardRequest): KeptScores {
    return {
      rows,
      release: (totals) => {
        rows.free();
        requireNumbers(this.name, totals, request);
      },
    };
  }

  async prepare(taps: readonly number[] = []): Promise<void> {
    await this.include(taps).program;
  }

  /** Includes all taps ever requested, so that sequences with different drafters share a pass. */
  private include(taps: readonly number[]): TappedProgram {
    const current = this.programs.at(-1);
    if (current !== undefined && taps.every((layer) => current.tapped.includes(layer))) return current;
    this.checkTaps(taps);
    const tapped = [...new Set([...(current?.tapped ?? []), ...taps])].sort((left, right) => left - right);
    const attendsInPlace = this.runtime.attendsInPlace?.(this.configuration.headSize) === true;
    const build = (form: 'lanes' | 'prefix' | 'alone'): NamedTensors => this.buildGraph(tapped, form);
    const program = compileLanes(this.runtime, build('lanes'), [this.weights], {
      afterPrefix: () => build('prefix'),
      alone: attendsInPlace ? () => build('alone') : undefined,
    });
    const included = { program, tapped };
    this.programs.push(included);
    // The next caller tries again.
    program.catch(() => this.programs.splice(this.programs.indexOf(included), 1));
    return included;
  }

  checkTaps(layers: readonly number[]): void {
    const { layerCount } = this.configuration;
    const wrong = layers.find((layer) => !Number.isInteger(layer) || layer < 0 || layer > layerCount);
    if (wrong === undefined) return;
    throw new MistletoeError('drafter', `Tap ${wrong} lies outside the target's ${layerCount} layers.`, {
      hint: 'The drafter was trained for a deeper target: use it with the one it belongs to.',
    });
  }

  /** [row, tapped * hidden] -> [row, wanted * hidden] */
  private pickTaps(all: RowBuffer, tapped: readonly number[], wanted: readonly number[]): RowBuffer {
    if (wanted.join() === tapped.join()) return all;
    const { hiddenSize } = this.configuration;
    const places = wanted.map((layer) => tapped.indexOf(layer));
    const picks = Int32Array.from(
      { length: all.rowCount * places.length },
      (_, at) => Math.floor(at / places.length) * tapped.length + places[at % places.length]!,
    );
    const picked = pickRows(this.runtime, all.withWidth(hiddenSize), picks);
    all.free();
    return picked.withWidth(places.length * hiddenSize);
  }

  private buildGraph(taps: readonly number[], form: 'lanes' | 'prefix' | 'alone'): NamedTensors {
    const { configuration, scope } = this;
    const isAlone = form === 'alone';
    const lanes = isAlone ? 1 : lane.lanes;
    const tokens = input('tokens', [lane.row, lanes], 'int32');
    const embeddings = lane.joinLanes(embedTokens(configuration, scope, tokens));
    const decoded = runDecoder(configuration, scope, embeddings, {
      context: isAlone
        ? lane.declareAttentionAlone(configuration)
        : lane.declareAttention(configuration, form === 'prefix' ? lane.prefix : 0),
      prefix: form === 'prefix' ? lane.declarePrefix(configuration) : undefined,
      ...(isAlone
        ? { caches: lane.declareCaches(configuration) }
        : { past: lane.declarePast(configuration) }),
      taps,
    });
    const logits = projectToVocabulary(
      configuration,
      scope,
      lane.selectRows(decoded.features, undefined, lanes),
    );
    return {
      rows: lane.stackRows(decoded.rows, configuration, lanes),
      logits,
      ...(this.runtime.drawsInPrograms === true ? { scores: logits } : {}),
      argmax: argmax(logits),
      // NaN and infinities show in the sum; the maximum ignores NaN.
      total: sum(logits, [-1]),
      features: lane.partLanes(decoded.features, undefined, lanes),
      ...(taps.length > 0 ? { taps: lane.partLanes(concatenate(decoded.taps, -1), undefined, lanes) } : {}),
    };
  }
}
