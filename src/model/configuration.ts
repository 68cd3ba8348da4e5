import * as z from '../core/schema.js';
import { MistletoeError } from '../core/errors.js';
import type { HalfType } from '../core/half-floats.js';
import { createExperts, expertSchema, type Experts } from './experts.js';
import { contextFields, families, readContext } from './families.js';
import type { ContextReach, FamilyName, FamilyTraits } from './families.js';
import type { RotaryScaling } from './rotary/rotary.js';
import { parseRotary } from './rotary/rotary-settings.js';

export interface ModelConfiguration extends ContextReach, FamilyTraits {
  readonly family: FamilyName;
  readonly hiddenSize: number;
  readonly intermediateSize: number;
  readonly experts?: Experts | undefined;
  readonly layerCount: number;
  readonly headCount: number;
  readonly keyValueHeadCount: number;
  readonly headSize: number;
  /** Of keys and values, as the runtime wants it; default float32. */
  readonly cacheType?: HalfType | undefined;
  readonly vocabularySize: number;
  readonly normEpsilon: number;
  readonly rotaryBase: number;
  readonly rotaryOrigin: string;
  readonly rotaryScaling: RotaryScaling;
  readonly tiedEmbeddings: boolean;
  readonly bosId: number | undefined;
  readonly eosIds: readonly number[];
}

const count = z.number().int().positive();
const tokenId = z.number().int().nonnegative();
const schema = z.object({
  hidden_size: count,
  intermediate_size: count,
  ...contextFields,
  num_attention_heads: count,
  num_key_value_heads: count.nullish(),
  head_dim: count.nullish(),
  vocab_size: count,
  rms_norm_eps: z.number().positive(),
  hidden_act: z.string().default('silu'),
  tie_word_embeddings: z.boolean().default(false),
  mlp_bias: z.boolean().nullish(),
  partial_rotary_factor: z.number().nullish(),
  quantization_config: z.looseObject({ quant_method: z.string().nullish() }).nullish(),
  bos_token_id: tokenId.nullish(),
  eos_token_id: z.union([tokenId, z.array(tokenId)]).nullish(),
});

export function parseConfiguration(
  config: Readonly<Record<string, unknown>>,
  place: string,
): ModelConfiguration {
  const name = findFamily(config, place);
  const fields = readFields(schema, config, place);
  checkSupport(fields, place);
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
  const positions = fields.max_position_embeddings ?? fields.max_sequence_length;
  if (positions == null) {
    throw unusable(
      place,
      'has neither "max_position_embeddings" nor "max_sequence_length"; one was expected',
    );
  }
  const rotary = parseRotary(config, place, { headSize, positions });
  const context = readContext(fields, positions, rotary.rotaryScaling, families[name].readWindow(fields));
  const eos = fields.eos_token_id ?? [];
  return {
    family: name,
    hiddenSize: fields.hidden_size,
    intermediateSize: fields.intermediate_size,
    ...(families[name].hasExperts === true ? { experts: readExperts(config, place) } : {}),
    layerCount: fields.num_hidden_layers,
    headCount,
    keyValueHeadCount,
    headSize,
    vocabularySize: fields.vocab_size,
    ...context,
    notes: [...context.notes, ...describeIgnored(name, fields)],
    normEpsilon: fields.rms_norm_eps,
    ...rotary,
    tiedEmbeddings: fields.tie_word_embeddings,
    ...families[name].readTraits(config),
    bosId: fields.bos_token_id ?? undefined,
    eosIds: typeof eos === 'number' ? [eos] : eos,
  };
}

type Fields = z.infer<typeof schema>;

function readFields<Schema extends z.ZodType>(
  schema: Schema,
  config: Readonly<Record<string, unknown>>,
  place: string,
): z.infer<Schema> {
  const parsed = schema.safeParse(config);
  if (parsed.success) return parsed.data;
  const { place: key, fault } = z.describeFault(parsed.error);
  if (!key.includes('.') && config[key] === undefined) throw unusable(place, `lacks "${key}"`, originalValue);
  throw unusable(place, `has a bad "${key}": ${fault}`);
}

/** transformers 5 writes the number of experts as `num_local_experts`. */
function readExperts(config: Readonly<Record<string, unknown>>, place: string): Experts {
  const named = { ...config, num_experts: config.num_experts ?? config.num_local_experts };
  const experts = createExperts(readFields(expertSchema, named, place));
  const { count: all, perToken } = experts;
  if (perToken <= all) return experts;
  throw unusable(
    place,
    `chooses ${perToken} experts per token (num_experts_per_tok) of ${all} (num_experts)`,
    originalValue,
  );
}

function checkSupport(fields: Fields, place: string): void {
  const method = fields.quantization_config?.quant_method ?? undefined;
  if (fields.quantization_config != null) {
    throw unusable(
      place,
      `says that the weights are quantised (${method ?? 'no method named'}); float weights were expected`,
    );
  }
  if (!['silu', 'swish'].includes(fields.hidden_act))
    throw unusable(place, `asks for the activation "${fields.hidden_act}"; silu was expected`);
  if (fields.mlp_bias === true) throw unusable(place, 'asks for biases in the MLP, which is not supported');
  if ((fields.partial_rotary_factor ?? 1) !== 1)
    throw unusable(place, 'asks for a partial rotary embedding, which is not supported');
  const { layer_types: types, num_hidden_layers: layers } = fields;
  if (types != null && types.length !== layers) {
    throw unusable(place, `names the types of ${types.length} layers; it has ${layers}`);
  }
}

function describeIgnored(
  name: FamilyName,
  { sliding_window: window, layer_types: types }: Fields,
): readonly string[] {
  if (name !== 'llama' || (window == null && types?.includes('sliding_attention') !== true)) return [];
  return ['The sliding window in config.json is not used: layers of the Llama family have none.'];
}

function findFamily(config: Readonly<Record<string, unknown>>, place: string): FamilyName {
  const architectures = Array.isArray(config.architectures) ? config.architectures : [];
  for (const [name, family] of Object.entries(families)) {
    if (architectures.includes(family.architecture)) return name as FamilyName;
    if (architectures.length === 0 && config.model_type === family.modelType) return name as FamilyName;
  }
  const names = architectures.map((each) => (typeof each === 'string' ? each : JSON.stringify(each)));
  const seen = (names.length > 0 ? names.join(', ') : JSON.stringify(config.model_type ?? null)).slice(
    0,
    200,
  );
  const supported = Object.values(families).map((family) => family.architecture);
  throw new MistletoeError(
    'checkpoint',
    `${place} describes the architecture ${seen}, which is not supported.`,
    { hint: `Supported: ${supported.join(', ')}.` },
  );
}

const originalValue = 'Take the value from the config.json that the weights were published or trained with.';

function unusable(
  place: string,
  fault: string,
  hint = 'Use a checkpoint of the Llama, Mistral, Qwen2, Qwen3, Qwen3-MoE or MiMo family as transformers writes it.',
): MistletoeError {
  return new MistletoeError('checkpoint', `${place} ${fault}.`, { hint });
}
