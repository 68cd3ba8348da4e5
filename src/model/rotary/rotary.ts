/**
 * Frequencies of the rotary embedding, base^(-2i / headSize) for pair i, and their published scalings:
 * - linear: divided by the factor (arXiv 2306.15595)
 * - llama3: long wavelengths divided, short ones kept, interpolated between
 * - yarn (arXiv 2309.00071): pairs that turn more than betaFast times within the original context are kept, those
 * below betaSlow divided, a linear ramp between. Cosine and sine are scaled by an attention factor, default 0.1
 * ln(factor) + 1.
 * - longrope (arXiv 2402.13753): a divisor per pair, one list up to the original context and one beyond, with the
 * attention factor sqrt(1 + ln(factor) / ln(original)). Growing past the border would rotate all cached keys again,
 * so the context ends there.
 * - dynamic NTK: the base grows for long sequences, with the same consequence.
 */
export type RotaryScaling =
  | { readonly kind: 'none' }
  | { readonly kind: 'linear'; readonly factor: number }
  | { readonly kind: 'dynamic'; readonly factor: number }
  | Llama3Scaling
  | YarnScaling
  | LongropeScaling;

export interface Llama3Scaling {
  readonly kind: 'llama3';
  readonly factor: number;
  readonly lowFrequencyFactor: number;
  readonly highFrequencyFactor: number;
  readonly originalContext: number;
}

export interface YarnScaling {
  readonly kind: 'yarn';
  readonly factor: number;
  readonly attentionFactor: number;
  /** Turns above which a pair keeps its frequency. */
  readonly betaFast: number;
  /** Turns below which it is divided by the whole factor. */
  readonly betaSlow: number;
  /** Round the borders to whole pairs. */
  readonly truncate: boolean;
  readonly originalContext: number;
}

export interface LongropeScaling {
  readonly kind: 'longrope';
  readonly factor: number;
  readonly attentionFactor: number;
  readonly shortFactors: readonly number[]; // [headSize / 2]
  readonly originalContext: number;
}

/** [headSize / 2] */
export function scaleFrequencies(headSize: number, base: number, scaling: RotaryScaling): Float64Array {
  const frequencies = Float64Array.from(
    { length: headSize / 2 },
    (_, pair) => base ** ((-2 * pair) / headSize),
  );
  switch (scaling.kind) {
    case 'none':
    case 'dynamic':
      return frequencies;
    case 'linear':
      return frequencies.map((frequency) => frequency / scaling.factor);
    case 'llama3':
      return frequencies.map((frequency) => scaleLlama3(frequency, scaling));
    case 'yarn': {
      const kept = keptShares(headSize, base, scaling);
      return frequencies.map(
        (frequency, pair) => (frequency / scaling.factor) * (1 - kept[pair]!) + frequency * kept[pair]!,
      );
    }
    case 'longrope':
      return frequencies.map((frequency, pair) => frequency / scaling.shortFactors[pair]!);
  }
}

/** Scales cosine and sine; its square acts on the scores. */
export function attentionFactorOf(scaling: RotaryScaling): number {
  return scaling.kind === 'yarn' || scaling.kind === 'longrope' ? scaling.attentionFactor : 1;
}

function scaleLlama3(frequency: number, scaling: Llama3Scaling): number {
  const { factor, lowFrequencyFactor, highFrequencyFactor, originalContext } = scaling;
  const turns = (originalContext * frequency) / (2 * Math.PI);
  if (turns < lowFrequencyFactor) return frequency / factor;
  if (turns > highFrequencyFactor) return frequency;
  const smooth = (turns - lowFrequencyFactor) / (highFrequencyFactor - lowFrequencyFactor);
  return ((1 - smooth) / factor + smooth) * frequency;
}

/** 1 for fast pairs, 0 for slow ones. */
function keptShares(
  headSize: number,
  base: number,
  { betaFast, betaSlow, truncate, originalContext }: YarnScaling,
): Float64Array {
  const pairThatTurns = (turns: number): number =>
    (headSize * Math.log(originalContext / (turns * 2 * Math.PI))) / (2 * Math.log(base));
  const first = pairThatTurns(betaFast);
  const last = pairThatTurns(betaSlow);
  const low = Math.max(truncate ? Math.floor(first) : first, 0);
  const high = Math.min(truncate ? Math.ceil(last) : last, headSize - 1);
  const width = high === low ? 0.001 : high - low;
  return Float64Array.from(
    { length: headSize / 2 },
    (_, pair) => 1 - Math.min(1, Math.max(0, (pair - low) / width)),
  );
}

/**
 * Cosine and sine by position, computed in double precision and stored as float32 like the references. The table grows as
 * longer positions are asked for.
 */
export class RotaryTable {
  private cosine = new Float32Array();
  private sine = new Float32Array();

  constructor(
    private readonly frequencies: Float32Array /* [headSize / 2] */,
    private readonly attentionFactor = 1,
  ) {}

  /** [position, headSize / 2] */
  anglesAt(positions: Int32Array) {
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
    const { attentionFactor } = this;
    this.cosine = new Float32Array(positions * width);
    this.sine = new Float32Array(positions * width);
    for (let position = 0; position < positions; position++) {
      for (let pair = 0; pair < width; pair++) {
        const angle = Math.fround(position * this.frequencies[pair]!);
        this.cosine[position * width + pair] = attentionFactor * Math.cos(angle);
        this.sine[position * width + pair] = attentionFactor * Math.sin(angle);
      }
    }
  }
}

export function createRotary(configuration: {
  readonly headSize: number;
  readonly rotaryBase: number;
  readonly rotaryScaling: RotaryScaling;
}): RotaryTable {
  const { headSize, rotaryBase, rotaryScaling } = configuration;
  const frequencies = Float32Array.from(scaleFrequencies(headSize, rotaryBase, rotaryScaling));
  return new RotaryTable(frequencies, attentionFactorOf(rotaryScaling));
}
