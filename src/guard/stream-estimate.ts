/**
 * Steps and accepted tokens of a stream whose engine is silent about them, read off its chunks. Two kinds of engines:
 *
 *   a chunk is a step    Its tokens but one were drafted. Tokens of a chunk are counted where log-probabilities, ids or a
 *                        running usage list them; otherwise only their mean is known, the usage's tokens over the chunks.
 *   a chunk is a token   Tokens of one step leave together, so that chunks come in bursts, and a burst is a step. Gaps are
 *                        then of two kinds, tiny and long. Where many lie between, nothing is estimated.
 *
 * The first chunk comes from the prompt's own pass and is no step. What this cannot see: servers that join steps into one
 * chunk (a stream interval above 1, a slow reader, a tool or reasoning parser that holds text back) make lengths look longer;
 * whatever buffers on the way makes bursts of steps; text that is held back until a character is whole hides a step; jitter
 * of the size of a step hides bursts. An estimate is good for comparing requests of one deployment with each other, and
 * cannot be compared with what another engine reports.
 */
import type { Speculation } from './request-record.js';
import type { StreamChunk } from './stream-chunk.js';

export interface StreamEstimate {
  readonly speculation: Speculation;
  /** Whether a chunk of this stream was a step; others of the same upstream then are, too. */
  readonly unit: 'chunk' | 'burst';
  /** Tokens of every step, or only their mean. */
  readonly detail: 'steps' | 'mean';
}

export interface StreamEstimator {
  add(chunk: StreamChunk): void;
  /** `completionTokens` as the usage has them. */
  estimate(completionTokens: number | null): StreamEstimate | null;
}

const maxKept = 8192;
const fewestChunks = 4;
const fewestGaps = 16;
/** Tokens for each chunk above which a chunk is not a token: a special token at the end has no chunk of its own. */
const oneToken = 1.05;
/** In shares of a long gap: what lies below is within a burst, what lies above is not. */
const [tinyGap, longGap] = [1 / 20, 1 / 4];
const mostBetween = 0.1;

export function createStreamEstimator(): StreamEstimator {
  const tokens: number[] = [];
  const gaps: number[] = [];
  let chunks = 0;
  let isCounted = true;
  let lastMs = 0;
  return {
    add(chunk) {
      if (chunk.tokens === 0 || (chunk.tokens === null && chunk.characters === 0)) return;
      if (chunk.tokens === null) isCounted = false;
      else if (isCounted && tokens.length < maxKept) tokens.push(chunk.tokens);
      if (chunks > 0 && gaps.length < maxKept) gaps.push(chunk.atMs - lastMs);
      lastMs = chunk.atMs;
      chunks++;
    },
    estimate(completionTokens) {
      if (chunks < fewestChunks) return null;
      if (isCounted) {
        const steps = tokens.slice(1);
        return steps.some((count) => count > 1) ? toEstimate('chunk', steps) : estimateBursts(gaps);
      }
      if (completionTokens === null) return null;
      if (completionTokens <= chunks * oneToken) return estimateBursts(gaps);
      return {
        unit: 'chunk',
        detail: 'mean',
        speculation: toSpeculation(chunks - 1, completionTokens - chunks),
      };
    },
  };
}

function estimateBursts(gaps: readonly number[]): StreamEstimate | null {
  if (gaps.length < fewestGaps || !gaps.every((gap) => gap >= 0)) return null;
  const long = gaps.toSorted((one, other) => one - other)[Math.floor(0.95 * (gaps.length - 1))]!;
  if (!(long > 0)) return null;
  const between = gaps.filter((gap) => gap > long * tinyGap && gap < long * longGap).length;
  if (between > gaps.length * mostBetween) return null;
  const bursts: number[] = [];
  for (const gap of gaps) {
    // The first chunk is alone with the prompt's pass, and what follows it begins a step, however soon it comes.
    if (bursts.length === 0 || gap >= long * longGap) bursts.push(1);
    else bursts[bursts.length - 1]!++;
  }
  return toEstimate('burst', bursts);
}

function toEstimate(unit: StreamEstimate['unit'], stepTokens: readonly number[]): StreamEstimate {
  const perStepAccepted = stepTokens.map((count) => count - 1);
  const accepted = perStepAccepted.reduce((sum, count) => sum + count, 0);
  return {
    unit,
    detail: 'steps',
    speculation: { ...toSpeculation(stepTokens.length, accepted), perStepAccepted },
  };
}

function toSpeculation(steps: number, accepted: number): Speculation {
  return {
    evidence: 'estimated',
    steps,
    accepted,
    proposed: null,
    histogram: null,
    perStepAccepted: null,
    perStepProposed: null,
    draftLength: null,
    isTree: false,
  };
}
