/** A checkpoint ready to run: its weights, and one program that serves prefill, decoding and verification alike. */
import { basename } from 'node:path';
import { openCheckpoint } from '../checkpoint/open-checkpoint.js';
import type { Checkpoint } from '../checkpoint/stored-tensor.js';
import type { CacheOptions } from '../checkpoint/weight-cache.js';
import { prepareWeights } from '../checkpoint/weight-cache.js';
import { MistletoeError } from '../core/errors.js';
import { addDimensions, symbol } from '../graph/dimension.js';
import type { Tensor } from '../graph/tensor.js';
import { argmax, gatherRows } from '../graph/operations/indexing.js';
import { input } from '../graph/operations/leaves.js';
import { sum } from '../graph/operations/reductions.js';
import { concatenate, reshape } from '../graph/operations/shaping.js';
import type { NamedTensors, NamedValues, Program, Runtime } from '../runtime/program.js';
import { floatsOf, int32, integersOf } from '../runtime/program.js';
import type { WeightStore } from '../runtime/weights.js';
import { attentionInputs } from './attention-inputs.js';
import type { ModelConfiguration } from './configuration.js';
import { parseConfiguration } from './configuration.js';
import { embedTokens, projectToVocabulary, runDecoder } from './decoder.js';
import type { KeyValueRows } from './decoder-layer.js';
import type { CacheSizes } from './kv-cache.js';
import { KvCache } from './kv-cache.js';
import type { RotaryTable } from './rotary.js';
import { createRotary } from './rotary.js';
import { requireTiedOutput } from './tied-output.js';
import { describeUnknownTensors, findUnreadTensors } from './unread-tensors.js';
import { decoderRecipes, requireLayers } from './weights.js';

export type ForwardOutput = 'logits' | 'argmax' | 'features' | 'taps';

export interface ForwardRequest {
  readonly tokens: Int32Array; // [row]
  readonly cache: KvCache;
  /** [row] a tree's parents among the new rows, -1 directly behind the past; absent for a chain. */
  readonly parents?: Int32Array;
  /** The rows whose logits or argmax are wanted; all by default. */
  readonly select?: Int32Array;
  readonly want: readonly ForwardOutput[];
}

export interface ForwardResult {
  /** Keys and values of the new rows, not yet in the cache. [slot, row, head, size] */
  readonly rows: Float32Array;
  readonly logits?: Float32Array; // [selected, vocabulary]
  readonly argmax?: Int32Array; // [selected]
  readonly features?: Float32Array; // [row, hidden]
  /** The tapped residual streams side by side. [row, taps * hidden] */
  readonly taps?: Float32Array;
}

export interface LoadOptions extends CacheOptions {
  readonly runtime: Runtime;
  /** Prefix of the weights' names, so that several models can meet in one program. */
  readonly scope?: string;
}

export async function loadModel(folder: string, options: LoadOptions): Promise<CausalModel> {
  return createModel(await openCheckpoint(folder), options);
}

export async function createModel(checkpoint: Checkpoint, options: LoadOptions): Promise<CausalModel> {
  const scope = options.scope ?? 'target.';
  const configuration = parseConfiguration(checkpoint.config, `config.json of ${checkpoint.folder}`);
  requireLayers(checkpoint, configuration.layerCount);
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
  /** The configuration's own angles unless given. */
  readonly rotary?: RotaryTable;
}

export class CausalModel {
  readonly name: string;
  readonly configuration: ModelConfiguration;
  readonly scope: string;
  readonly weights: WeightStore;
  readonly runtime: Runtime;
  readonly rotary: RotaryTable;
  private readonly programs = new Map<string, Promise<Program>>();
  private taps: readonly number[] = [];

  constructor({ name, configuration, scope, weights, runtime, rotary }: ModelParts) {
    this.name = name;
    this.configuration = configuration;
    this.scope = scope;
    this.weights = weights;
    this.runtime = runtime;
    this.rotary = rotary ?? createRotary(configuration);
  }

  createCache(): KvCache {
    return new KvCache(this.configuration);
  }

  /** Chooses which residual streams `taps` returns: the ones before these layers. Call before the first forward. */
  setTaps(layers: readonly number[]): void {
    const wrong = layers.find(
      (layer) => !Number.isInteger(layer) || layer < 0 || layer > this.configuration.layerCount,
    );
    if (wrong !== undefined) {
      throw new MistletoeError(
        'drafter',
        `Tap ${wrong} lies outside the target's ${this.configuration.layerCount} layers.`,
        {
          hint: 'The drafter was trained for a deeper target: use it with the one it belongs to.',
        },
      );
    }
    this.taps = layers;
  }

  /** Runs new rows behind the cache's past. The cache is read, not changed: the caller appends the rows it keeps. */
  async forward(request: ForwardRequest): Promise<ForwardResult> {
    const { tokens, cache, parents, want } = request;
    const count = tokens.length;
    const { contextLength, slidingWindow } = this.configuration;
    if (cache.length + count > contextLength && parents === undefined) {
      throw contextError(cache.length + count, this.configuration);
    }
    const program = await this.program();
    const inputs: NamedValues = {
      tokens: int32(tokens),
      select: int32(request.select ?? allRows(count)),
      ...attentionInputs(
        { count, pastLength: cache.pastLength, parents, window: slidingWindow },
        this.rotary,
      ),
      ...pastInputs(cache),
    };
    const wantsScores = want.includes('logits') || want.includes('argmax');
    const outputs = await program.run(inputs, ['rows', ...want, ...(wantsScores ? ['total'] : [])]);
    if (wantsScores) this.requireNumbers(floatsOf(outputs, 'total'), request);
    return {
      rows: floatsOf(outputs, 'rows'),
      ...(want.includes('logits') ? { logits: floatsOf(outputs, 'logits') } : {}),
      ...(want.includes('argmax') ? { argmax: integersOf(outputs, 'argmax') } : {}),
      ...(want.includes('features') ? { features: floatsOf(outputs, 'features') } : {}),
      ...(want.includes('taps') ? { taps: floatsOf(outputs, 'taps') } : {}),
    };
  }

  /** An argmax of scores that are no numbers is any token, and what is decoded from it would look like an answer. */
  private requireNumbers(totals: Float32Array, { tokens, cache, parents, select }: ForwardRequest): void {
    const selected = totals.findIndex((total) => !Number.isFinite(total));
    if (selected < 0) return;
    const row = select?.[selected] ?? selected;
    const read = cache.length + (parents === undefined ? row + 1 : countPath(parents, row));
    throw new MistletoeError(
      'checkpoint',
      `${this.name} gives scores that are no numbers after ${read} ${read === 1 ? 'token' : 'tokens'} (their sum is ${totals[selected]!}; token ${tokens[row]!} was the last).`,
      {
        hint: 'Its weights hold NaN or infinite values: the checkpoint is damaged, or overflowed when it was written as float16. Download it again, or take it in bfloat16 or float32.',
      },
    );
  }

  /** Compiles ahead of the first forward. */
  async prepare(): Promise<void> {
    await this.program();
  }

  private program(): Promise<Program> {
    const key = this.taps.join(',');
    const known = this.programs.get(key);
    if (known !== undefined) return known;
    const program = this.runtime.compile(this.buildGraph(), [this.weights], { packed: true });
    this.programs.set(key, program);
    return program;
  }

  private buildGraph(): NamedTensors {
    const { configuration, scope, taps } = this;
    const row = symbol('row');
    const tokens = input('tokens', [row], 'int32');
    const select = input('select', [symbol('selected')], 'int32');
    const embeddings = reshape(embedTokens(configuration, scope, tokens), [1, row, configuration.hiddenSize]);
    const decoded = runDecoder(configuration, scope, embeddings, {
      context: declareAttention(configuration),
      past: declarePast(configuration),
      taps,
    });
    const flat = (x: Tensor): Tensor => reshape(x, [row, configuration.hiddenSize]);
    const features = flat(decoded.features);
    const logits = projectToVocabulary(configuration, scope, gatherRows(features, select));
    return {
      rows: stackRows(decoded.rows, configuration),
      logits,
      argmax: argmax(logits),
      // One NaN or infinity anywhere in a row shows in its sum; the runtime's maximum skips what is no number.
      total: sum(logits, [-1]),
      features,
      ...(taps.length > 0 ? { taps: concatenate(decoded.taps.map(flat), -1) } : {}),
    };
  }
}

/** The inputs that attentionInputs fills. */
export function declareAttention({ headSize }: { headSize: number }, rowName = 'row') {
  const row = symbol(rowName);
  const angles = (name: string): Tensor => input(name, [row, headSize / 2]);
  const mask = input('mask', [row, addDimensions(symbol('past'), row)]);
  return { cosine: angles('cosine'), sine: angles('sine'), mask };
}

/** The inputs that pastInputs fills. */
export function declarePast(sizes: CacheSizes): readonly KeyValueRows[] {
  const shape = [symbol('past'), sizes.keyValueHeadCount, sizes.headSize];
  return Array.from({ length: sizes.layerCount }, (_, layer) => ({
    keys: input(`past${2 * layer}`, shape),
    values: input(`past${2 * layer + 1}`, shape),
  }));
}

export function pastInputs(cache: KvCache): NamedValues {
  const values: Record<string, NamedValues[string]> = {};
  for (let slot = 0; slot < 2 * cache.sizes.layerCount; slot++) values[`past${slot}`] = cache.view(slot);
  return values;
}

/** New rows of a batch of one as KvCache.append takes them. [slot, row, head, size] */
export function stackRows(rows: readonly KeyValueRows[], sizes: CacheSizes): Tensor {
  const row = rows[0]!.keys.shape[1]!;
  const flat = (x: Tensor): Tensor => reshape(x, [row, sizes.keyValueHeadCount, sizes.headSize]);
  const stacked = concatenate(
    rows.flatMap(({ keys, values }) => [flat(keys), flat(values)]),
    0,
  );
  return reshape(stacked, [2 * rows.length, row, sizes.keyValueHeadCount, sizes.headSize]);
}

function allRows(count: number): Int32Array {
  return Int32Array.from({ length: count }, (_, row) => row);
}

/** Nodes from the tree's root to this one, both counted. */
function countPath(parents: Int32Array, node: number): number {
  let count = 0;
  for (let current = node; current >= 0; current = parents[current] ?? -1) count += 1;
  return count;
}

export function contextError(
  needed: number,
  { contextLength, contextOrigin }: Pick<ModelConfiguration, 'contextLength' | 'contextOrigin'>,
): MistletoeError {
  return new MistletoeError(
    'context',
    `The sequence needs ${needed} positions; the model's context has ${contextLength} (${contextOrigin}).`,
    {
      hint: 'Shorten the prompt or ask for fewer new tokens.',
    },
  );
}
