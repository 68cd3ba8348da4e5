/** What a decoder is, as one record: read once from config.json, trusted afterwards. */
import { z } from 'zod';
import { MistletoeError } from '../core/errors.js';
import { llama } from './families/llama.js';
import { mistral } from './families/mistral.js';
import { qwen2 } from './families/qwen2.js';
import { qwen3 } from './families/qwen3.js';
import type { RotaryScaling } from './rotary.js';
import { parseRotary } from './rotary.js';

export interface ModelConfiguration {
  readonly family: FamilyName;
  readonly hiddenSize: number;
  readonly intermediateSize: number;
  readonly layerCount: number;
  readonly headCount: number;
  readonly keyValueHeadCount: number;
  readonly headSize: number;
  readonly vocabularySize: number;
  readonly contextLength: number;
  readonly normEpsilon: number;
  readonly rotaryBase: number;
  readonly rotaryScaling: RotaryScaling;
  readonly tiedEmbeddings: boolean;
  /** Bias on the query, key and value projections. */
  readonly queryKeyValueBias: boolean;
  readonly outputBias: boolean;
  /** RMS norm on each head's query and key before rotation. */
  readonly queryKeyNorm: boolean;
  readonly bosId: number | undefined;
  readonly eosIds: readonly number[];
}

/** What one family does differently from the common decoder. */
export interface Family {
  readonly name: string;
  readonly architecture: string;
  readonly modelType: string;
  readTraits(config: Readonly<Record<string, unknown>>): FamilyTraits;
}

export type FamilyTraits = Pick<ModelConfiguration, 'queryKeyValueBias' | 'outputBias' | 'queryKeyNorm'>;

export const families = { llama, mistral, qwen2, qwen3 } as const satisfies Record<string, Family>;
export type FamilyName = keyof typeof families;

const count = z.number().int().positive();
const tokenId = z.number().int().nonnegative();
const schema = z.object({
  hidden_size: count,
  intermediate_size: count,
  num_hidden_layers: count,
  num_attention_heads: count,
  num_key_value_heads: count.nullish(),
  head_dim: count.nullish(),
  vocab_size: count,
  max_position_embeddings: count,
  rms_norm_eps: z.number().positive(),
  hidden_act: z.string().default('silu'),
  tie_word_embeddings: z.boolean().default(false),
  sliding_window: count.nullish(),
  use_sliding_window: z.boolean().nullish(),
  mlp_bias: z.boolean().nullish(),
  partial_rotary_factor: z.number().nullish(),
  bos_token_id: tokenId.nullish(),
  eos_token_id: z.union([tokenId, z.array(tokenId)]).nullish(),
});

export function parseConfiguration(
  config: Readonly<Record<string, unknown>>,
  place: string,
): ModelConfiguration {
  const name = findFamily(config, place);
  const parsed = schema.safeParse(config);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw unusable(place, `has a bad "${issue?.path.join('.') ?? ''}": ${issue?.message ?? 'not readable'}`);
  }
  const fields = parsed.data;
  if (fields.hidden_act !== 'silu')
    throw unusable(place, `asks for the activation "${fields.hidden_act}"; silu was expected`);
  if (fields.mlp_bias === true) throw unusable(place, 'asks for biases in the MLP, which is not supported');
  if ((fields.partial_rotary_factor ?? 1) !== 1)
    throw unusable(place, 'asks for a partial rotary embedding, which is not supported');
  const headCount = fields.num_attention_heads;
  const keyValueHeadCount = fields.num_key_value_heads ?? headCount;
  const headSize = fields.head_dim ?? fields.hidden_size / headCount;
  if (!Number.isInteger(headSize) || headSize % 2 !== 0) {
    throw unusable(place, `gives heads of ${headSize} values; an even whole number was expected`);
  }
  if (headCount % keyValueHeadCount !== 0) {
    throw unusable(
      place,
      `has ${headCount} heads for ${keyValueHeadCount} key-value heads; a multiple was expected`,
    );
  }
  // Inside the window a sliding-window model is an ordinary one, so the window bounds the context.
  const window = fields.use_sliding_window === false ? undefined : (fields.sliding_window ?? undefined);
  const eos = fields.eos_token_id ?? [];
  return {
    family: name,
    hiddenSize: fields.hidden_size,
    intermediateSize: fields.intermediate_size,
    layerCount: fields.num_hidden_layers,
    headCount,
    keyValueHeadCount,
    headSize,
    vocabularySize: fields.vocab_size,
    contextLength: Math.min(fields.max_position_embeddings, window ?? Infinity),
    normEpsilon: fields.rms_norm_eps,
    ...parseRotary(config, place),
    tiedEmbeddings: fields.tie_word_embeddings,
    ...families[name].readTraits(config),
    bosId: fields.bos_token_id ?? undefined,
    eosIds: typeof eos === 'number' ? [eos] : eos,
  };
}

function findFamily(config: Readonly<Record<string, unknown>>, place: string): FamilyName {
  const architectures = Array.isArray(config.architectures) ? config.architectures : [];
  for (const [name, family] of Object.entries(families)) {
    if (architectures.includes(family.architecture)) return name as FamilyName;
    if (architectures.length === 0 && config.model_type === family.modelType) return name as FamilyName;
  }
  const seen =
    architectures.length > 0 ? architectures.join(', ') : JSON.stringify(config.model_type ?? null);
  const supported = Object.values(families).map((family) => family.architecture);
  throw new MistletoeError(
    'checkpoint',
    `${place} describes the architecture ${seen}, which is not supported.`,
    {
      hint: `Supported: ${supported.join(', ')}.`,
    },
  );
}

function unusable(place: string, fault: string): MistletoeError {
  return new MistletoeError('checkpoint', `${place} ${fault}.`, {
    hint: 'Use a checkpoint of the Llama, Mistral, Qwen2 or Qwen3 family as transformers writes it.',
  });
}
