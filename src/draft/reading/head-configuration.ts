/** The configuration of a head's layers, and settings in it that are refused. */
import { readIntegers } from '../../checkpoint/read-tensor.js';
import type { Checkpoint } from '../../checkpoint/stored-tensor.js';
import { showValue } from '../../core/json-text.js';
import { countText } from '../../core/number-text.js';
import { weight, type Tensor } from '../../graph/tensor.js';
import type { CausalModel } from '../../model/causal-model.js';
import type { ModelConfiguration } from '../../model/configuration.js';
import { embeddingTable } from '../../model/decoder.js';
import { anotherTarget, incomplete, misfit, type Reading } from './checks.js';
import { measureLayer, readDraftConfiguration, type KnownSizes } from './draft-configuration.js';

/**
 * The sizes of a head's layers, all like the named one. If config.json cannot be read, they come from the tensors and the
 * rest is default.
 */
export function describeLayers(
  reading: Reading,
  layer: string,
  { hiddenSize, vocabularySize }: Pick<KnownSizes, 'hiddenSize' | 'vocabularySize'>,
): ModelConfiguration {
  const { target, reject } = reading;
  const measured = measureLayer(reading, layer, hiddenSize);
  const { queryKeyValueBias, outputBias, queryKeyNorm } = measured;
  const { headCount, keyValueHeadCount, headSize } = queryKeyNorm ? measured : (target ?? measured);
  const heads = { headCount, keyValueHeadCount, headSize };
  const known = { ...measured, ...heads, vocabularySize };
  const read = reading.attempt(() => readDraftConfiguration(reading, known)) ?? {
    ...readDraftConfiguration(
      { ...reading, config: { rms_norm_eps: 1e-6 } },
      { ...known, headCount: 1, keyValueHeadCount: 1, headSize: 2 }, // any even head size is valid here
    ),
    ...heads,
  };
  refuseUnusualPositions(read, reading);
  // Without a target, config.json and tensors are compared by the caller.
  if (target !== undefined && read.hiddenSize !== hiddenSize)
    reject(`declares hidden_size ${read.hiddenSize}, but its tensors are ${hiddenSize} wide`, sameOrigin);
  return { ...read, hiddenSize, queryKeyValueBias, outputBias, queryKeyNorm };
}

/** No published head has more than a few. */
export const maxLayers = 64;

export const isLayerCount = (count: unknown): count is number =>
  typeof count === 'number' && Number.isInteger(count) && count >= 1 && count <= maxLayers;

export const slidingKind = 'sliding_attention';

/** Which layers have a window. A list may be the target's: its first entries count. */
export function readLayerKinds({ settings, reject }: Reading, layerCount: number) {
  const { layer_types: listed } = settings;
  if (listed === undefined) return undefined;
  const kinds: readonly unknown[] = Array.isArray(listed) ? listed.slice(0, layerCount) : [];
  const isKnown = kinds.every((kind) => kind === slidingKind || kind === 'full_attention');
  if (isKnown && kinds.length === layerCount) return kinds;
  const expected = `full_attention or sliding_attention for ${countText(layerCount, 'layer')} was expected`;
  reject(`has "layer_types": ${showValue(listed)}; ${expected}`, sameOrigin);
  return [];
}

export const sameOrigin = 'Take config.json and the weights from the same drafter.';

/**
 * Refuses position settings that engines ignore or interpret differently:
 * - dynamic `rope_scaling`: transformers stretches the base only for long sequences, vLLM and SGLang always, and
 * Hunyuan's heads mean a constant `alpha`
 * - longrope: factors for long sequences are not supported
 */
function refuseUnusualPositions({ rotaryScaling }: ModelConfiguration, { target, reject }: Reading): void {
  if (rotaryScaling.kind === 'dynamic')
    reject(
      'asks for the rotary scaling "dynamic", which is not supported in a head',
      'Engines compute it in different ways. Use a head without it; if yours was trained with plain angles, remove rope_scaling from its config.json.',
    );
  if (rotaryScaling.kind !== 'longrope' || target === undefined) return;
  const { originalContext } = rotaryScaling;
  if (target.contextLength > originalContext)
    reject(
      `asks for the rotary scaling "longrope" beyond ${originalContext} positions; the target reads ${target.contextLength}`,
      'Its factors for longer sequences are not supported: use another head.',
    );
}

/** The first of these keys counts, in the order of vLLM's loader. */
const maskKeys = ['mask_token_id', 'dspark_noise_token_id', 'pard_token', 'ptd_token_id'] as const;

export function readMaskToken({ settings, reject }: Reading, vocabularySize: number): number {
  const key = maskKeys.find((name) => settings[name] !== undefined);
  const found = key === undefined ? undefined : settings[key];
  if (Number.isInteger(found) && (found as number) >= 0 && (found as number) < vocabularySize)
    return found as number;
  const seen = key === undefined ? 'no mask token' : `${key} ${JSON.stringify(found)}`;
  reject(
    `has ${seen} in its config.json; a token id below ${vocabularySize} was expected`,
    'Take config.json and the weights from the same drafter: another mask token drafts nonsense.',
  );
  return 0;
}

/** A head's own table takes precedence, as in the authors' loaders. [vocabulary, hidden] */
export function embeddingOf(
  folder: string,
  scope: string,
  { ownVocabulary, configuration: { hiddenSize } }: HeadTables,
  { configuration, scope: targetScope }: CausalModel,
  mayBePadded = false,
): Tensor {
  const { vocabularySize } = configuration;
  if (ownVocabulary === undefined) return embeddingTable(configuration, targetScope);
  if (ownVocabulary === vocabularySize || (mayBePadded && ownVocabulary > vocabularySize))
    return weight(`${scope}embed_tokens.weight`, [ownVocabulary, hiddenSize]);
  throw misfit(
    folder,
    `has embeddings of its own for ${ownVocabulary} tokens; the target has ${vocabularySize}`,
    anotherTarget,
  );
}

export interface HeadTables {
  readonly configuration: ModelConfiguration;
  /** Rows of its own embeddings. */
  readonly ownVocabulary: number | undefined;
}

/** The target tokens of the draft vocabulary; undefined if it is the target's. */
export async function readVocabularyMap(
  checkpoint: Checkpoint,
  draftSize: number,
  targetSize: number,
): Promise<Int32Array | undefined> {
  const { tensors, folder } = checkpoint;
  const offsets = tensors.get('d2t') ?? tensors.get('model.d2t');
  if (offsets === undefined) {
    if (draftSize === targetSize) return undefined;
    throw misfit(folder, `drafts over ${draftSize} of ${targetSize} tokens and lacks d2t`, incomplete);
  }
  const values = await readIntegers(offsets);
  const targetTokens = values.map((offset, token) => token + offset);
  const hint = `Expected ${draftSize} distinct tokens below ${targetSize}: the drafter belongs to another target or is damaged.`;
  const outside = targetTokens.findIndex((token) => token < 0 || token >= targetSize);
  if (outside >= 0) {
    const found = targetTokens[outside]!;
    throw misfit(
      folder,
      `has a d2t that maps draft token ${outside} to ${found}; the target has ${targetSize} tokens`,
      hint,
    );
  }
  const distinct = new Set(targetTokens).size;
  if (targetTokens.length !== draftSize || distinct !== draftSize) {
    throw misfit(
      folder,
      `has a d2t that maps ${targetTokens.length} draft tokens to ${distinct} target tokens; the drafter has ${draftSize}`,
      hint,
    );
  }
  const mask = tensors.get('t2d') ?? tensors.get('model.t2d');
  if (mask !== undefined) {
    const known = await readIntegers(mask);
    const wrong = targetTokens.find((token) => known[token] !== 1);
    if (wrong !== undefined)
      throw misfit(
        folder,
        `has d2t and t2d that disagree on target token ${wrong}`,
        'The file is damaged: download it again.',
      );
  }
  return targetTokens;
}
