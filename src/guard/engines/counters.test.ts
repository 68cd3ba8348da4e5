import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  differCounters,
  draftedLength,
  type EngineCounters,
  parsePrometheusText,
  readEngineCounters,
  tokensPerPass,
} from './counters.js';
import { engines } from './engine-list.js';

const folder = resolve(import.meta.dirname, '../../../test/fixtures/engines');
const readText = (text: string): readonly EngineCounters[] =>
  readEngineCounters(parsePrometheusText(text), engines);
const metrics = (name: string): string => readFileSync(resolve(folder, `${name}-metrics.txt`), 'utf8');

describe('readEngineCounters', () => {
  it.each([
    ['vllm', 'meta-llama/Llama-3.1-8B-Instruct', { evidence: 'reported', proposed: 1800, draftLength: 3 }],
    ['mistletoe', 'reference', { evidence: 'reported', proposed: 1800, draftLength: 3 }],
    ['lmdeploy', 'internlm3', { evidence: 'reported', proposed: 1800, draftLength: 3 }],
    ['llama-cpp', null, { evidence: 'reported', proposed: 1800, draftLength: 3 }],
    ['tgi', null, { evidence: 'reported', proposed: null }],
    ['sglang', 'Qwen/Qwen3-8B', { evidence: 'estimated', proposed: null }],
    ['tensorrt-llm', 'llama-3.1-8b', { evidence: 'derived', proposed: 1800, draftLength: 3 }],
  ])('reads the counters of %s', (engine, model, speculation) => {
    const [counters, ...others] = readText(metrics(engine));
    expect(others).toEqual([]);
    expect(counters).toMatchObject({ engine, model });
    expect(differCounters(undefined, counters!)).toMatchObject({ steps: 600, accepted: 900, ...speculation });
  });

  it('finds nothing where nothing is drafted', () => {
    expect(readText(metrics('vllm-plain'))).toEqual([]);
    expect(readText('')).toEqual([]);
  });

  it('sums the engines of a model, and keeps models apart', () => {
    const lines = [1, 2].flatMap((engine) =>
      ['a', 'b'].flatMap((model) => [
        `vllm:spec_decode_num_drafts_total{engine="${engine}",model_name="${model}"} ${engine}`,
        `vllm:spec_decode_num_accepted_tokens_total{engine="${engine}",model_name="${model}"} ${engine * 2}`,
      ]),
    );
    expect(readText(lines.join('\n'))).toMatchObject([
      { model: 'a', drafts: 3, acceptedTokens: 6 },
      { model: 'b', drafts: 3, acceptedTokens: 6 },
    ]);
  });

  it('is not moved by labels and values that make no sense', () => {
    const name = 'vllm:spec_decode_num_accepted_tokens_per_pos_total';
    const lines = ['-1', '1e9', 'x', ''].map((position) => `${name}{position="${position}"} 5`);
    expect(readText(`${lines.join('\n')}\nvllm:spec_decode_num_drafts_total NaN`)).toEqual([]);
    const many = Array.from(
      { length: 500 },
      (_, model) => `vllm:spec_decode_num_drafts_total{model="${model}"} 1`,
    );
    expect(readText(many.join('\n'))).toHaveLength(64);
  });
});

it('counts passes without a draft', () => {
  const [counters] = readText(metrics('llama-cpp-ngram'));
  expect(tokensPerPass(counters!)).toBeCloseTo(80 / 75);
  expect(draftedLength(counters!)).toBe(6);
});

describe('differCounters', () => {
  const counters = (changes: Partial<EngineCounters> = {}): EngineCounters => ({
    ...{ engine: 'vllm', model: 'm', draftTokens: 300, draftLength: 3 },
    ...{ drafts: 100, acceptedTokens: 80, outputTokens: 200, recentLength: null },
    ...changes,
  });

  it('gives what came between', () => {
    const after = counters({ drafts: 110, draftTokens: 330, acceptedTokens: 95 });
    expect(differCounters(counters(), after)).toMatchObject({
      steps: 10,
      accepted: 15,
      proposed: 30,
    });
    expect(differCounters(after, after)).toBeNull();
  });

  it('counts from zero behind a restart', () => {
    const after = counters({ drafts: 10, draftTokens: 30, acceptedTokens: 5 });
    expect(differCounters(counters(), after)).toMatchObject({ steps: 10, accepted: 5 });
  });

  it('goes without a draft length that does not fit, and without counts that contradict each other', () => {
    const ahead = counters({ draftTokens: null, acceptedTokens: 301 });
    expect(differCounters(undefined, ahead)).toMatchObject({ steps: 100, accepted: 301, draftLength: null });
    expect(differCounters(undefined, counters({ acceptedTokens: 301 }))).toBeNull();
  });

  it('makes do with a gauge', () => {
    const silent = { drafts: null, draftTokens: null, draftLength: null };
    const recent = counters({ ...silent, recentLength: 3 });
    expect(differCounters(undefined, recent)).toMatchObject({
      steps: 40,
      accepted: 80,
      evidence: 'estimated',
    });
    expect(differCounters(undefined, counters({ ...silent, recentLength: 1 }))).toBeNull();
    expect(differCounters(undefined, counters(silent))).toBeNull();
    expect(draftedLength(counters())).toBe(1.8);
    expect(draftedLength(recent)).toBeUndefined();
  });

  it('never gives what no engine could have done', () => {
    const number = fc.option(fc.oneof(fc.nat(1000), fc.double()), { nil: null });
    const any = fc.record({
      ...{ drafts: number, draftTokens: number, acceptedTokens: number },
      ...{ draftLength: number, recentLength: number },
    });
    fc.assert(
      fc.property(any, any, (before, after) => {
        const found = differCounters(counters(before), counters(after));
        if (found === null) return;
        expect(found.steps).toBeGreaterThan(0);
        expect(found.accepted).toBeGreaterThanOrEqual(0);
        expect(found.proposed === null || found.accepted <= found.proposed).toBe(true);
      }),
      { numRuns: 1000, seed: 13 },
    );
  });
});
