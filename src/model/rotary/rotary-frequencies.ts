/**
 * Frequencies of the rotary embedding: base^(-2i / headSize) for pair i, and what the published scalings make of them
 * so that a model reads further than it was trained.
 *
 * - linear: every frequency divided by the factor (position interpolation, arXiv 2306.15595).
 * - llama3: long wavelengths divided by the factor, short ones kept, the ones between interpolated.
 * - yarn (arXiv 2309.00071): the same idea, with the borders told by how often a pair turns within the original
 *   context: more than betaFast times, kept; less than betaSlow times, divided; a linear ramp over the pairs between.
 *   Cosine and sine are multiplied by an attention factor, 0.1 ln(factor) + 1 unless told.
 * - longrope (arXiv 2402.13753): one divisor for each pair, found by search; a list for sequences up to the original
 *   context and one for longer ones. The attention factor sqrt(1 + ln(factor) / ln(original)) applies to both. A
 *   sequence that grows over the border would need all its cached keys turned anew, so the context ends there and
 *   only the short list is ever used.
 * - dynamic NTK: the base grows once a sequence is longer than max_position_embeddings, which again would turn cached
 *   keys; up to there, where the context ends, the frequencies are the plain ones.
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
  /** Turns within the original context above which a pair keeps its frequency. */
  readonly betaFast: number;
  /** Turns below which its frequency is divided by the whole factor. */
  readonly betaSlow: number;
  /** The borders of the ramp as whole pairs. */
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

/** [headSize / 2] in double precision */
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

/** What cosine and sine are multiplied by, and so queries and keys: its square acts on the scores. */
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

/** How much of its own frequency each pair keeps under yarn: 1 for the fast ones, 0 for the slow ones. */
function keptShares(
  headSize: number,
  base: number,
  { betaFast, betaSlow, truncate, originalContext }: YarnScaling,
): Float64Array {
  /** The pair, as a real number, that turns so often within the original context. */
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
