/**
 * Reads rotary settings: `rope_theta` and `rope_scaling` (transformers 4) or `rope_parameters` (version 5). Files
 * that the two versions read differently, or ignore in part, are refused: a wrong angle gives fluent but wrong text.
 */
import { isDeepStrictEqual } from 'node:util';
import * as z from '../../core/schema.js';
import { MistletoeError } from '../../core/errors.js';
import { isRecord, showValue } from '../../core/json-text.js';
import type { LongropeScaling, RotaryScaling, YarnScaling } from './rotary.js';

interface RotarySizes {
  readonly headSize: number;
  readonly positions: number;
}

const positive = z.number().positive();
const positiveOrNone = positive.nullish().transform((value) => value ?? undefined);
// Zero means absent, as in the reference.
const weightOrNone = z
  .number()
  .nonnegative()
  .nullish()
  .transform((value) => (value === 0 ? undefined : (value ?? undefined)));
const rotarySchema = z.object({
  rope_type: z.string().nullish(),
  type: z.string().nullish(),
  rope_theta: positiveOrNone,
  partial_rotary_factor: positiveOrNone,
  factor: positiveOrNone,
  low_freq_factor: positiveOrNone,
  high_freq_factor: positiveOrNone,
  original_max_position_embeddings: positiveOrNone,
  attention_factor: positiveOrNone,
  beta_fast: weightOrNone,
  beta_slow: weightOrNone,
  mscale: weightOrNone,
  mscale_all_dim: weightOrNone,
  truncate: z.boolean().nullish(),
  short_factor: z.array(positive).nullish(),
  long_factor: z.array(positive).nullish(),
});
type RotaryFields = z.infer<typeof rotarySchema>;

interface ScalingContext extends RotarySizes {
  readonly key: string;
  readonly place: string;
  readonly originalContext: number;
}

function parseScaling(kind: string, fields: RotaryFields, context: ScalingContext): RotaryScaling {
  const { factor, low_freq_factor: low, high_freq_factor: high } = fields;
  const { originalContext } = context;
  const need = <Value>(name: string, value: Value | null | undefined): Value => {
    if (value !== undefined && value !== null) return value;
    throw refuseRotary(
      context.place,
      `asks for the rotary scaling "${kind}" without "${name}" in ${context.key}`,
    );
  };
  switch (kind) {
    case 'default':
      return { kind: 'none' };
    case 'linear':
    case 'dynamic':
      return { kind, factor: need('factor', factor) };
    case 'llama3':
      return {
        kind,
        factor: need('factor', factor),
        lowFrequencyFactor: need('low_freq_factor', low),
        highFrequencyFactor: need('high_freq_factor', high),
        originalContext,
      };
    case 'yarn':
      return parseYarn(fields, factor ?? context.positions / originalContext, originalContext);
    case 'longrope': {
      // Unused, but checked.
      checkFactors('long_factor', need('long_factor', fields.long_factor), context);
      const shortFactors = checkFactors('short_factor', need('short_factor', fields.short_factor), context);
      return parseLongrope(fields, shortFactors, context);
    }
    default:
      throw refuseRotary(context.place, `asks for the rotary scaling "${kind}", which is not supported`);
  }
}

function parseYarn(fields: RotaryFields, factor: number, originalContext: number): YarnScaling {
  const growth = (weight: number): number => (factor <= 1 ? 1 : 0.1 * weight * Math.log(factor) + 1);
  const { mscale, mscale_all_dim: overAll, beta_fast: fast, beta_slow: slow } = fields;
  const derived =
    mscale !== undefined && overAll !== undefined ? growth(mscale) / growth(overAll) : growth(1);
  return {
    kind: 'yarn',
    factor,
    attentionFactor: fields.attention_factor ?? derived,
    betaFast: fast ?? 32,
    betaSlow: slow ?? 1,
    truncate: fields.truncate ?? true,
    originalContext,
  };
}

function parseLongrope(
  fields: RotaryFields,
  shortFactors: readonly number[],
  { key, place, positions, originalContext }: ScalingContext,
): LongropeScaling {
  const ratio = positions / originalContext;
  const factor = fields.factor ?? ratio;
  // Versions of the reference use the factor or the ratio of the lengths.
  if (fields.attention_factor === undefined && ratio > 1 && factor !== ratio) {
    throw refuseRotary(
      place,
      `has the factor ${factor} in ${key}, but reads ${positions} positions after training on ${originalContext}, which is ${ratio} times`,
    );
  }
  const derived = factor <= 1 ? 1 : Math.sqrt(1 + Math.log(factor) / Math.log(originalContext));
  if (!Number.isFinite(derived)) {
    throw refuseRotary(place, `scales by longrope from ${originalContext} position on; more were expected`);
  }
  return {
    kind: 'longrope',
    factor,
    attentionFactor: fields.attention_factor ?? derived,
    shortFactors,
    originalContext,
  };
}

function checkFactors(
  name: string,
  factors: readonly number[],
  { headSize, place, key }: ScalingContext,
): readonly number[] {
  if (factors.length === headSize / 2) return factors;
  throw refuseRotary(
    place,
    `has ${factors.length} numbers in ${key}.${name}; ${headSize / 2} were expected, one for each pair of a head`,
  );
}

function refuseRotary(place: string, fault: string): MistletoeError {
  return new MistletoeError('checkpoint', `${place} ${fault}.`, {
    hint:
      'Supported: one rope_theta, with rope_scaling or rope_parameters of the rope_type default, linear, dynamic, ' +
      'llama3, yarn or longrope and the fields it needs. Correct config.json as the checkpoint was trained.',
  });
}

export interface RotarySettings {
  readonly rotaryBase: number;
  readonly rotaryOrigin: string;
  readonly rotaryScaling: RotaryScaling;
}

const defaultBase = 10000;

export function parseRotary(
  config: Readonly<Record<string, unknown>>,
  place: string,
  sizes: RotarySizes,
): RotarySettings {
  const { key, settings } = chooseSettings(config, place);
  const parsed = rotarySchema.safeParse(settings);
  if (!parsed.success) {
    const { place: field, fault } = z.describeFault(parsed.error);
    throw refuseRotary(place, `has a bad "${field === '' ? key : `${key}.${field}`}": ${fault}`);
  }
  const fields = parsed.data;
  if ((fields.partial_rotary_factor ?? 1) !== 1) {
    throw refuseRotary(
      place,
      `asks in ${key} to turn ${fields.partial_rotary_factor} of each head; the whole head was expected`,
    );
  }
  const kind = fields.rope_type ?? fields.type ?? undefined;
  const unscaled = ['rope_theta', 'partial_rotary_factor', 'rope_type', 'type'];
  const others = Object.keys(settings).filter((name) => !unscaled.includes(name));
  // Version 4 fails without a kind, version 5 drops the scaling: neither is intended.
  if (kind === undefined && others.length > 0)
    throw refuseRotary(
      place,
      `has ${others.join(', ')} in ${key} but no "rope_type" that says what they scale`,
    );
  const { rope_theta: inner, original_max_position_embeddings: original } = fields;
  const outer = readOuter(config, 'rope_theta', inner, place);
  const stated = readOuter(config, 'original_max_position_embeddings', original, place);
  const context = { key, place, ...sizes, originalContext: stated ?? original ?? sizes.positions };
  return {
    rotaryBase: inner ?? outer ?? defaultBase,
    rotaryOrigin:
      (inner ?? outer) === undefined
        ? `default ${defaultBase}`
        : `${inner === undefined ? '' : `${key}.`}rope_theta of config.json`,
    rotaryScaling: parseScaling(kind ?? 'default', fields, context),
  };
}

function chooseSettings(config: Readonly<Record<string, unknown>>, place: string) {
  const older = readRecord(config, 'rope_scaling', place);
  const newer = readRecord(config, 'rope_parameters', place);
  if (older !== undefined && newer !== undefined && !isDeepStrictEqual(older, newer)) {
    throw refuseRotary(place, 'has both rope_scaling and rope_parameters, and they differ; one was expected');
  }
  const key = newer === undefined ? 'rope_scaling' : 'rope_parameters';
  const settings = newer ?? older ?? {};
  const nested = Object.keys(settings).filter((name) => isRecord(settings[name]));
  if (nested.length > 0) {
    throw refuseRotary(
      place,
      `gives each kind of layer rotary settings of its own (${key}: ${nested.join(', ')}), which is not supported`,
    );
  }
  return { key, settings };
}

/** An empty object counts as absent. */
function readRecord(
  config: Readonly<Record<string, unknown>>,
  key: string,
  place: string,
): Readonly<Record<string, unknown>> | undefined {
  const value = config[key];
  if (value === undefined || value === null) return undefined;
  if (!isRecord(value)) {
    throw refuseRotary(place, `has a bad "${key}": ${showValue(value)}; an object was expected`);
  }
  return Object.keys(value).length === 0 ? undefined : value;
}

/** A setting that may stand in config.json itself, as Phi-3 writes it, and must then agree with the inner one. */
function readOuter(
  config: Readonly<Record<string, unknown>>,
  name: 'rope_theta' | 'original_max_position_embeddings',
  inner: number | undefined,
  place: string,
): number | undefined {
  const { success, data: outer } = positiveOrNone.safeParse(config[name]);
  if (success && (outer === undefined || inner === undefined || outer === inner)) return outer;
  throw refuseRotary(
    place,
    `has ${name} ${showValue(config[name])} beside ${inner ?? 'none'} in its rotary settings; one positive number was expected`,
  );
}
