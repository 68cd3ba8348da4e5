import { readdirSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { meanAcceptedLength } from '../observation.js';
import { findSpeculation, parseEngineName } from './engine-list.js';
import { maxKeptSteps } from './claim.js';

const folder = resolve(import.meta.dirname, '../../../test/fixtures/engines');
const fixture = (name: string): unknown =>
  JSON.parse(readFileSync(resolve(folder, `${name}.json`), 'utf8')) as unknown;
const find = (name: string): ReturnType<typeof findSpeculation> => findSpeculation(fixture(name));

const histogram = [1, 2, 2, 1];
const counted = { evidence: 'reported', steps: 6, accepted: 9, proposed: 18, draftLength: 3, isTree: false };

describe('findSpeculation', () => {
  it('reads the time of a step from llama.cpp and our server, also without drafts', () => {
    expect(find('llama-cpp-recorded').speculation?.stepMs).toBeCloseTo(16_324.461 / 24);
    const read = (metrics: object) =>
      findSpeculation({ metrics: { engine: 'mistletoe', ...metrics } }).speculation;
    const mistletoe = { plain_steps: 40, decode_ms: 200 };
    expect(read({ speculative_decoding: null, mistletoe })).toMatchObject({
      steps: 40,
      proposed: 0,
      stepMs: 5,
    });
    const drafts = { num_spec_steps: 4, num_accepted_draft_tokens: 4, num_draft_tokens: 12 };
    expect(read({ speculative_decoding: drafts, mistletoe })).not.toHaveProperty('stepMs');
    const timed = read({ speculative_decoding: drafts, mistletoe: { plain_steps: 0, decode_ms: 28 } });
    expect(timed).toMatchObject({ steps: 4, proposed: 12, stepMs: 7 });
  });

  it.each([
    ['vllm-summary', 'vllm', { ...counted, histogram, perStepAccepted: null }],
    ['vllm-detailed', 'vllm', { ...counted, histogram, perStepAccepted: [3, 1, 0, 2, 1, 2] }],
    ['vllm-older', 'vllm', { ...counted, histogram }],
    ['mistletoe', 'mistletoe', { ...counted, histogram, perStepProposed: [3, 3, 3, 3, 3, 3] }],
    ['sglang-native', 'sglang', { ...counted, histogram }],
    ['sglang-native-aliases', 'sglang', { ...counted, histogram }],
    ['sglang-native-older', 'sglang', { ...counted, histogram: null }],
    ['sglang-native-oldest', 'sglang', { evidence: 'derived', steps: 6, accepted: 9, proposed: null }],
    ['sglang-openai', 'sglang', { ...counted, histogram }],
    ['tensorrt-llm', 'tensorrt-llm', { evidence: 'derived', steps: 6, accepted: 10, proposed: null }],
    ['llama-cpp', 'llama-cpp', { evidence: 'derived', steps: 7, accepted: 9, proposed: 18 }],
    ['llama-cpp-native', 'llama-cpp', { evidence: 'derived', steps: 7, accepted: 9, proposed: 18 }],
    ['llama-cpp-silent', 'llama-cpp', { evidence: 'derived', steps: 16, accepted: 0, proposed: 0 }],
    ['llama-cpp-recorded', 'llama-cpp', { evidence: 'derived', steps: 25, accepted: 23, proposed: 94 }],
    ['llama-cpp-recorded-n2', 'llama-cpp', { evidence: 'derived', steps: 5, accepted: 7, proposed: 14 }],
    ['sglang-native-batch', 'sglang', { ...counted, steps: 12, accepted: 18, proposed: 36, histogram: null }],
  ])('reads %s', (name, engine, speculation) => {
    expect(find(name)).toMatchObject({ engine, speculation, refusal: null });
  });

  it.each([
    ['vllm-silent', 'vllm'],
    ['vllm-several-choices', 'vllm'],
    ['sglang-native-silent', 'sglang'],
    ['sglang-openai-silent', 'sglang'],
    ['tensorrt-llm-silent', 'tensorrt-llm'],
    ['llama-cpp-recorded-responses', 'unknown'],
    ['llama-cpp-recorded-messages', 'unknown'],
    ['lmdeploy-silent', 'unknown'],
    ['tgi-silent', 'unknown'],
    ['error', 'unknown'],
  ])('finds nothing in %s, and no fault', (name, engine) => {
    expect(find(name)).toEqual({ engine, speculation: null, refusal: null });
  });

  it.each([
    ['vllm-broken-more-accepted', 'vllm', /9 accepted of 8 proposed/],
    ['vllm-broken-histogram', 'vllm', /9 accepted draft tokens, but 7 in the histogram/],
    ['vllm-broken-strings', 'vllm', /"6" as the number of steps/],
    ['vllm-broken-negative', 'vllm', /-9 as the number of accepted/],
    ['vllm-broken-steps', 'vllm', /6 steps, but lists 5/],
    ['sglang-broken', 'sglang', /99 accepted of 18/],
    ['tensorrt-llm-broken', 'tensorrt-llm', /not a number from 1 to 1025/],
    ['llama-cpp-broken', 'llama-cpp', /9 accepted of 5/],
  ])('refuses %s with the reason', (name, engine, reason) => {
    const { refusal, ...rest } = find(name);
    expect(rest).toEqual({ engine, speculation: null });
    expect(refusal).toMatch(reason);
  });

  const told = (changes: object): ReturnType<typeof findSpeculation> =>
    findSpeculation({
      metrics: {
        speculative_decoding: { num_spec_steps: 2, num_accepted_draft_tokens: 2, ...changes },
      },
    });

  it.each([
    [{ num_spec_steps: Number.NaN }, /NaN/],
    [{ num_spec_steps: 0.5 }, /0\.5 as/],
    [{ num_spec_steps: 1e300 }, /1e\+300/],
    [{ num_spec_tokens: 1e6 }, /draft length of 1000000/],
    [{ num_spec_steps: 0 }, /2 accepted draft tokens in 0 steps/],
    [{ num_spec_tokens: 1, num_accepted_draft_tokens: 3 }, /3 accepted draft tokens in 2 steps of at most 1/],
    [{ mean_acceptance_length: 3 }, /mean accepted length of 3 where the counts give 2\.00/],
    [{ mean_acceptance_length: Number.NaN }, /mean accepted length of NaN/],
    [{ acceptance_histogram: 'x' }, /"x" as histogram/],
    [{ acceptance_histogram: { one: 2 } }, /keys are not draft token counts/],
    [{ acceptance_histogram: { 5000: 2 } }, /keys are not draft token counts/],
    [{ acceptance_histogram: new Array(2000).fill(0) }, /histogram of 2000 entries/],
    [{ acceptance_histogram: [1, 0, 1, 1] }, /2 steps, but 3 in the histogram/],
    [{ per_step_accepted: [1, {}] }, /an object as the number/],
    [{ per_step_accepted: [1, 0] }, /2 draft tokens, but 1 in its list/],
    [{ per_step_accepted: [2, 0], per_step_drafted: [1, 3] }, /2 accepted of 1 draft tokens in step 0/],
    [{ per_step_accepted: { length: 2 } }, /an object as its list/],
  ])('refuses %j', (changes, reason) => {
    const { speculation, refusal } = told(changes);
    expect(speculation).toBeNull();
    expect(refusal).toMatch(reason);
  });

  it('keeps the totals of an answer whose steps are too many to keep', () => {
    const steps = maxKeptSteps + 1;
    const { speculation } = told({
      num_spec_steps: steps,
      num_accepted_draft_tokens: steps,
      per_step_accepted: new Array(steps).fill(1),
    });
    expect(speculation).toMatchObject({ steps, accepted: steps, perStepAccepted: null });
  });

  it('takes an answer without a step for what it is', () => {
    const { speculation } = told({
      num_spec_steps: 0,
      num_accepted_draft_tokens: 0,
      mean_acceptance_length: 0,
    });
    expect(meanAcceptedLength(speculation!)).toBe(1);
  });

  it.each([
    [
      {
        sglext: {
          spec_tokens_details: [
            { spec_verify_ct: 4, spec_num_correct_drafts: 3 },
            { spec_verify_ct: 6, spec_num_correct_drafts: 9 },
          ],
        },
      },
      { steps: 10, accepted: 12 },
    ],
    [
      {
        usage: { completion_tokens: 40 },
        choices: [{ avg_decoded_tokens_per_iter: 1 }, { avg_decoded_tokens_per_iter: 1 }],
      },
      { steps: 40, accepted: 0 },
    ],
    [
      {
        choices: [1, 2].map((steps) => ({
          speculative_decoding_stats: { num_spec_steps: steps, num_accepted_draft_tokens: 1 },
        })),
      },
      { steps: 3, accepted: 2 },
    ],
  ])('pools the choices of %j', (body, speculation) => {
    expect(findSpeculation(body).speculation).toMatchObject(speculation);
  });

  it('rejects several choices of which one reports nothing', () => {
    const body = {
      choices: [{ speculative_decoding_stats: { num_spec_steps: 1, num_accepted_draft_tokens: 1 } }, {}],
    };
    expect(findSpeculation(body).speculation).toBeNull();
  });

  it('does not take names that engines share for a signature', () => {
    const shared = { acceptance_histogram: [1, 1], num_spec_steps: 2, num_draft_tokens: 4 };
    for (const body of [{ metrics: shared }, { choices: [{ speculative_decoding: shared }] }, shared])
      expect(findSpeculation(body)).toEqual({ engine: 'unknown', speculation: null, refusal: null });
  });

  it('never throws, whatever the values of known fields are', () => {
    const names = readdirSync(folder).filter((name) => name.endsWith('.json'));
    const bodies = names.map((name) => fixture(name.slice(0, -5)));
    fc.assert(
      fc.property(
        fc.constantFrom(...bodies),
        fc.infiniteStream(fc.anything()),
        fc.nat(),
        (body, values, at) => {
          const { speculation } = findSpeculation(replaceLeaf(body, at, () => values.next().value));
          if (speculation === null) return;
          const { steps, accepted, proposed } = speculation;
          expect(Number.isInteger(steps) && Number.isInteger(accepted) && steps >= 0 && accepted >= 0).toBe(
            true,
          );
          expect(proposed === null || accepted <= proposed).toBe(true);
        },
      ),
      { numRuns: 2000, seed: 13 },
    );
  });

  it('never throws, whatever the body is', () => {
    fc.assert(
      fc.property(fc.anything(), (body) => {
        expect(findSpeculation(body).engine).toBe('unknown');
      }),
      { seed: 13 },
    );
  });
});

/** The value with that number, in the order of a walk, is another one. */
function replaceLeaf(value: unknown, at: number, replacement: () => unknown): unknown {
  let leaves = 0;
  const count = (each: unknown): void => {
    leaves++;
    if (typeof each === 'object' && each !== null) Object.values(each).forEach(count);
  };
  count(value);
  let left = at % leaves;
  const walk = (each: unknown): unknown => {
    if (left-- === 0) return replacement();
    if (Array.isArray(each)) return each.map(walk);
    if (typeof each !== 'object' || each === null) return each;
    return Object.fromEntries(Object.entries(each).map(([key, inner]) => [key, walk(inner)]));
  };
  return walk(value);
}

describe('parseEngineName', () => {
  it('knows names of engines alone', () => {
    const given = ['vllm', 'mistletoe/0.2.0', 'VLLM', '', null];
    expect(given.map(parseEngineName)).toEqual(['vllm', 'mistletoe', undefined, undefined, undefined]);
  });
});
