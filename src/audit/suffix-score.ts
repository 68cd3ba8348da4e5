/** What one pass says about a suffix. */
export interface Score {
  readonly degradation: number;
  readonly divergence: number;
}

/** What the same pass says about decoding along the clean answer. */
export interface AnswerScore {
  /** Mean accepted length along the clean answer, drafted as a chain. */
  readonly length: number;
  /** Answer tokens that the target, held to the answer, still takes first, up to the first that it does not. */
  readonly followed: number;
  /** By how much other tokens lead, or nearly do, on average; 0 where the answer's own lead safely. */
  readonly leaving: number;
}

export interface Scored extends Score, AnswerScore {
  readonly suffixIds: readonly number[];
  readonly first: number;
}

export interface SuffixGradients extends Score {
  readonly degradationGradient: Float32Array; // [suffix, vocabulary]
  readonly divergenceGradient: Float32Array; // [suffix, vocabulary]
}
