/**
 * From the scores of a model to the distribution its tokens are drawn from. Speculative sampling keeps the target's distribution only
 * if the same processed distribution is used for drawing and for verifying, so it is made here and nowhere else.
 * The order is that of Hugging Face's warpers: temperature, then top-k, then top-p on what top-k left.
 */
import { MistletoeError } from './errors.js';
import { argmax, softmaxInto, topIndices } from './vector.js';

export interface SamplingOptions {
  /** 0 means greedy: all mass on the most likely token. */
  readonly temperature: number;
  /** Keep this many of the most likely tokens. */
  readonly topK?: number | undefined;
  /** Keep the fewest most likely tokens whose mass reaches this. */
  readonly topP?: number | undefined;
}

export function checkSamplingOptions(options: SamplingOptions): SamplingOptions {
  const { temperature, topK, topP } = options;
  if (!Number.isFinite(temperature) || temperature < 0) {
    throw new MistletoeError(
      'usage',
      `The temperature is ${temperature}; a number of 0 or more was expected.`,
      { hint: 'Use 0 for greedy decoding, 1 for the distribution of the model as it is.' },
    );
  }
  if (topK !== undefined && (!Number.isInteger(topK) || topK < 1)) {
    throw new MistletoeError('usage', `top-k is ${topK}; a whole number of 1 or more was expected.`, {
      hint: 'Leave top-k out to keep the whole vocabulary.',
    });
  }
  if (topP !== undefined && !(topP > 0 && topP <= 1)) {
    throw new MistletoeError('usage', `top-p is ${topP}; a number above 0 and up to 1 was expected.`, {
      hint: 'Leave top-p out to keep the whole vocabulary.',
    });
  }
  return options;
}

/** The distribution of the next token, summing to 1, written to `out`, which may be `logits` itself. */
export function toDistribution(
  logits: Float32Array, // [vocabulary]
  options: SamplingOptions,
  out: Float32Array = new Float32Array(logits.length), // [vocabulary]
): Float32Array {
  const { temperature, topK = Infinity, topP = 1 } = checkSamplingOptions(options);
  const best = argmax(logits);
  const bestLogit = logits[best]!;
  if (!Number.isFinite(bestLogit)) {
    throw new MistletoeError('runtime', `The largest logit is ${bestLogit}; a finite number was expected.`, {
      hint: 'The model produced no usable scores: check its weights and number type.',
    });
  }
  if (temperature === 0) {
    out.fill(0);
    out[best] = 1;
    return out;
  }
  if (topK < logits.length) {
    const kept = topIndices(logits, topK);
    const distribution = softmaxInto(gather(logits, kept), new Float32Array(kept.length), temperature);
    scatter(distribution, kept, out);
  } else {
    softmaxInto(logits, out, temperature);
  }
  if (Number.isNaN(out[best])) {
    throw new MistletoeError('runtime', 'The logits contain NaN; numbers were expected.', {
      hint: 'The model produced no usable scores: check its weights and number type.',
    });
  }
  return topP < 1 ? keepNucleus(out, topP) : out;
}

/** Ranks a growing head of the distribution rather than all of it: a nucleus is rarely more than a few hundred tokens. */
function keepNucleus(distribution: Float32Array, topP: number): Float32Array {
  for (let count = 128; ; count *= 8) {
    const ranked = topIndices(distribution, count);
    const probabilities = gather(distribution, ranked);
    let size = 0;
    let mass = 0;
    while (size < ranked.length && mass < topP) mass += probabilities[size++]!;
    if (mass < topP && ranked.length < distribution.length) continue;
    const kept = probabilities.subarray(0, size).map((probability) => probability / mass);
    return scatter(kept, ranked, distribution);
  }
}

function gather(values: Float32Array, indexes: Int32Array): Float32Array {
  return Float32Array.from(indexes, (index) => values[index]!);
}

function scatter(values: Float32Array, indexes: Int32Array, out: Float32Array): Float32Array {
  out.fill(0);
  for (let slot = 0; slot < values.length; slot++) out[indexes[slot]!] = values[slot]!;
  return out;
}
