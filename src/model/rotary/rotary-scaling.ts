/** Parses the rotary scaling of a checkpoint. */
import { z } from 'zod';
import { MistletoeError } from '../../core/errors.js';
import type { LongropeScaling, RotaryScaling, YarnScaling } from './rotary-frequencies.js';

export interface RotarySizes {
  readonly headSize: number;
  readonly positions: number;
}

const positive = z.number().positive();
export const positiveOrNone = positive.nullish().transform((value) => value ?? undefined);
// Zero means absent, as in the reference.
const weightOrNone = z
  .number()
  .nonnegative()
  .nullish()
  .transform((value) => (value === 0 ? undefined : (value ?? undefined)));
export const rotarySchema = z.object({
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
export type RotaryFields = z.infer<typeof rotarySchema>;

interface ScalingContext extends RotarySizes {
  readonly key: string;
  readonly place: string;
  readonly originalContext: number;
}

export function parseScaling(kind: string, fields: RotaryFields, context: ScalingContext): RotaryScaling {
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

export function refuseRotary(place: string, fault: string): MistletoeError {
  return new MistletoeError('checkpoint', `${place} ${fault}.`, {
    hint:
      'Supported: one rope_theta, with rope_scaling or rope_parameters of the rope_type default, linear, dynamic, ' +
      'llama3, yarn or longrope and the fields it needs. Correct config.json as the checkpoint was trained.',
  });
}
