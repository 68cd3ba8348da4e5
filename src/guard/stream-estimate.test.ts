import { describe, expect, it } from 'vitest';
import { createRandom } from '../core/random.js';
import type { StreamChunk } from './stream-chunk.js';
import type { StreamEstimate } from './stream-estimate.js';
import { createStreamEstimator } from './stream-estimate.js';

type Timed = readonly [atMs: number, tokens: number | null];

function estimate(chunks: readonly Timed[], completionTokens: number | null = null): StreamEstimate | null {
  const estimator = createStreamEstimator();
  for (const [atMs, tokens] of chunks) {
    const chunk: StreamChunk = { atMs, characters: 4, tokens, told: null };
    estimator.add(chunk);
  }
  return estimator.estimate(completionTokens);
}

/** A token for each chunk; steps take 20 ms and some jitter, tokens of a step leave together. */
function streamTokens(stepTokens: readonly number[], jitter: (step: number) => number): Timed[] {
  let atMs = 500;
  const chunks: Timed[] = [[atMs, 1]];
  for (const [step, count] of stepTokens.entries()) {
    atMs += 20 + jitter(step);
    for (let token = 0; token < count; token++) chunks.push([atMs + 0.05 * token, 1]);
  }
  return chunks;
}

const random = createRandom(13, 'stream-estimate');
const jitter = (): number => 10 * random.next() - 5;
const steps = Array.from({ length: 60 }, () => 1 + random.nextInteger(4));

describe('createStreamEstimator', () => {
  it('takes bursts of single tokens for steps', () => {
    const found = estimate(streamTokens(steps, jitter));
    expect(found?.unit).toBe('burst');
    expect(found?.speculation.perStepAccepted).toEqual(steps.map((count) => count - 1));
  });

  it('does so too where tokens are known only to be as many as chunks', () => {
    const chunks = streamTokens(steps, jitter).map(([atMs]) => [atMs, null] as const);
    expect(estimate(chunks, chunks.length + 1)?.speculation).toMatchObject({ steps: 60 });
    expect(estimate(chunks, null)).toBeNull();
  });

  it('finds an accepted length of 1 where tokens come one by one', () => {
    const found = estimate(streamTokens(new Array<number>(60).fill(1), jitter));
    expect(found?.speculation).toMatchObject({ steps: 60, accepted: 0, evidence: 'estimated' });
  });

  it('estimates nothing where gaps are of no two kinds', () => {
    let atMs = 0;
    const chunks = Array.from(
      { length: 200 },
      () => [(atMs -= 20 * Math.log(1 - random.next())), 1] as const,
    );
    expect(estimate(chunks)).toBeNull();
  });

  it('estimates nothing of a few chunks, nor where all came at once, nor where the clock went back', () => {
    expect(
      estimate([
        [0, 1],
        [1, 5],
        [2, 5],
      ]),
    ).toBeNull();
    expect(estimate(Array.from({ length: 50 }, () => [7, 1] as const))).toBeNull();
    expect(estimate(Array.from({ length: 50 }, (_, index) => [-index, 1] as const))).toBeNull();
  });

  it('needs no times where chunks carry several tokens', () => {
    const found = estimate(Array.from({ length: 10 }, (_, index) => [7, index === 0 ? 1 : 3] as const));
    expect(found).toMatchObject({ unit: 'chunk', speculation: { steps: 9, accepted: 18 } });
  });

  it('keeps a bounded part of an endless stream', () => {
    const chunks = Array.from({ length: 20_000 }, (_, index) => [index, 2] as const);
    expect(estimate(chunks)?.speculation).toMatchObject({ steps: 8191, accepted: 8191 });
  });
});
