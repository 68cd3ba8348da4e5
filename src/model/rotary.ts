/**
 * Angles of the rotary embedding: position times base^(-2i / headSize), for Llama 3 with its long wavelengths divided
 * by a factor and the ones between interpolated. Computed in double precision, stored as the float32 that the
 * reference implementations use.
 */
import { z } from 'zod';
import { MistletoeError } from '../core/errors.js';

export type RotaryScaling =
  | { readonly kind: 'none' }
  | { readonly kind: 'linear'; readonly factor: number }
  | {
      readonly kind: 'llama3';
      readonly factor: number;
      readonly lowFrequencyFactor: number;
      readonly highFrequencyFactor: number;
      readonly originalContext: number;
    };

const positive = z.number().positive();
const scalingSchema = z.object({
  rope_type: z.string().optional(),
  type: z.string().optional(),
  rope_theta: positive.optional(),
  factor: positive.optional(),
  low_freq_factor: positive.optional(),
  high_freq_factor: positive.optional(),
  original_max_position_embeddings: positive.optional(),
});

/** Reads `rope_theta` and `rope_scaling`, or the newer `rope_parameters` that holds both. */
export function parseRotary(config: Readonly<Record<string, unknown>>, place: string) {
  const given = scalingSchema.safeParse(config.rope_parameters ?? config.rope_scaling ?? {});
  const base = positive.safeParse(
    config.rope_theta ?? (given.success ? given.data.rope_theta : undefined) ?? 10000,
  );
  if (!given.success || !base.success) {
    throw new MistletoeError('checkpoint', `${place} has rotary settings that cannot be read.`, {
      hint: 'Expected rope_theta with rope_scaling, or rope_parameters, as transformers writes them.',
    });
  }
  return { rotaryBase: base.data, rotaryScaling: parseScaling(given.data, place) };
}

function parseScaling(fields: z.infer<typeof scalingSchema>, place: string): RotaryScaling {
  const kind = fields.rope_type ?? fields.type ?? 'default';
  const {
    factor,
    low_freq_factor: low,
    high_freq_factor: high,
    original_max_position_embeddings: original,
  } = fields;
  if (kind === 'default') return { kind: 'none' };
  if (kind === 'linear' && factor !== undefined) return { kind, factor };
  if (kind === 'llama3' && factor && low && high && original) {
    return { kind, factor, lowFrequencyFactor: low, highFrequencyFactor: high, originalContext: original };
  }
  throw new MistletoeError(
    'checkpoint',
    `${place} asks for the rotary scaling "${kind}", which is not supported or not complete.`,
    {
      hint: 'Supported: default, linear (factor) and llama3 (factor, low_freq_factor, high_freq_factor, original_max_position_embeddings).',
    },
  );
}

export function rotaryFrequencies(headSize: number, base: number, scaling: RotaryScaling): Float32Array {
  return Float32Array.from(scaleFrequencies(headSize, base, scaling));
}

function scaleFrequencies(headSize: number, base: number, scaling: RotaryScaling): Float64Array {
  const frequencies = Float64Array.from(
    { length: headSize / 2 },
    (_, pair) => base ** ((-2 * pair) / headSize),
  );
  if (scaling.kind === 'none') return frequencies;
  if (scaling.kind === 'linear') return frequencies.map((frequency) => frequency / scaling.factor);
  const { factor, lowFrequencyFactor, highFrequencyFactor, originalContext } = scaling;
  return frequencies.map((frequency) => {
    const turns = (originalContext * frequency) / (2 * Math.PI);
    if (turns < lowFrequencyFactor) return frequency / factor;
    if (turns > highFrequencyFactor) return frequency;
    const smooth = (turns - lowFrequencyFactor) / (highFrequencyFactor - lowFrequencyFactor);
    return ((1 - smooth) / factor + smooth) * frequency;
  });
}

export interface RotaryAngles {
  readonly cosine: Float32Array; // [position, headSize / 2]
  readonly sine: Float32Array; // [position, headSize / 2]
}

/** Looks angles up by position; the table grows as longer positions are asked for. */
export class RotaryTable {
  private cosine = new Float32Array();
  private sine = new Float32Array();

  constructor(private readonly frequencies: Float32Array /* [headSize / 2] */) {}

  anglesAt(positions: Int32Array): RotaryAngles {
    const width = this.frequencies.length;
    const highest = positions.reduce((most, position) => Math.max(most, position), 0);
    if ((highest + 1) * width > this.cosine.length) this.grow(Math.max(256, 2 * (highest + 1)));
    const cosine = new Float32Array(positions.length * width);
    const sine = new Float32Array(positions.length * width);
    positions.forEach((position, row) => {
      const from = position * width;
      cosine.set(this.cosine.subarray(from, from + width), row * width);
      sine.set(this.sine.subarray(from, from + width), row * width);
    });
    return { cosine, sine };
  }

  private grow(positions: number): void {
    const width = this.frequencies.length;
    this.cosine = new Float32Array(positions * width);
    this.sine = new Float32Array(positions * width);
    for (let position = 0; position < positions; position++) {
      for (let pair = 0; pair < width; pair++) {
        const angle = Math.fround(position * this.frequencies[pair]!);
        this.cosine[position * width + pair] = Math.cos(angle);
        this.sine[position * width + pair] = Math.sin(angle);
      }
    }
  }
}

/** The angles that a configuration asks for. */
export function createRotary(configuration: {
  readonly headSize: number;
  readonly rotaryBase: number;
  readonly rotaryScaling: RotaryScaling;
}): RotaryTable {
  const { headSize, rotaryBase, rotaryScaling } = configuration;
  return new RotaryTable(rotaryFrequencies(headSize, rotaryBase, rotaryScaling));
}
