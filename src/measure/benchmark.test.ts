import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { join } from 'node:path';
import { makeTemporaryFolder } from '../../test/support/checkpoint/temporary-folder.js';
import { MistletoeError } from '../core/errors.js';
import { bundledTarget } from '../core/package-files.js';
import { always } from '../decode/policies/policy-chooser.js';
import type { Target } from '../decode/target.js';
import { openTarget } from '../decode/target.js';
import { type Drafter, noSuggestion } from '../draft/drafter.js';
import { loadDrafter } from '../draft/systems.js';
import { createOnnxRuntime } from '../runtime/onnx/onnx-runtime.js';
import { inlinePrompt } from '../text/prompts/prompt-set.js';
import type { BenchmarkOptions, BenchmarkSystem, PromptSet } from './benchmark.js';
import { runBenchmark } from './benchmark.js';
import { recordAnswer } from './benchmark-summary.js';

const temporary = makeTemporaryFolder();
const runtime = createOnnxRuntime({ threads: 1 });
const loading = { runtime, cacheFolder: temporary.path };
let target: Target;
let systems: readonly BenchmarkSystem[];

const system = (drafter: Drafter, length: number): BenchmarkSystem => ({
  name: drafter.system,
  policy: `chain:${length}`,
  drafter,
  createPolicy: () => always({ kind: 'chain', length }),
});

beforeAll(async () => {
  target = await openTarget(bundledTarget, loading);
  const load = (name: string) =>
    loadDrafter(join(bundledTarget, '..', name), { target: target.model, ...loading });
  systems = [system(await load('eagle3'), 3), system(await load('medusa'), 2)];
});

afterAll(async () => {
  await runtime.dispose();
  temporary.remove();
});

const prompts = ['Write a Python function that reverses a string.', 'Why is the sky blue?'].map(
  (text, index) => ({ ...inlinePrompt(text), id: `p${index}`, category: index === 0 ? 'code' : 'chat' }),
);
const small: PromptSet = { name: 'small', prompts };

const optionsWith = (changes: Partial<BenchmarkOptions> = {}): BenchmarkOptions => ({
  target,
  systems,
  promptSets: [small],
  maxNewTokens: 12,
  sampling: { temperature: 0 },
  seed: 0,
  warmup: 1,
  ...changes,
});

describe('a benchmark', () => {
  it('answers every prompt with every system, losslessly, whether it taps the target or not', async () => {
    const { records, summaries, categories, interrupted } = await runBenchmark(optionsWith());
    expect(records.map((record) => `${record.promptId} ${record.system}`)).toEqual([
      'p0 plain',
      'p0 eagle3',
      'p0 medusa',
      'p1 plain',
      'p1 eagle3',
      'p1 medusa',
    ]);
    expect(interrupted).toBe(false);
    for (const { speculation, tokenIds, decodeMs } of records) {
      if (speculation === undefined) continue;
      const { acceptance, draftMs, verifyMs, overheadMs, equalsPlain } = speculation;
      expect(equalsPlain).toBe(true);
      expect(acceptance.emitted).toBe(tokenIds.length);
      expect(draftMs + verifyMs + overheadMs).toBeCloseTo(decodeMs, 6);
    }
    const [plain, eagle3] = summaries;
    expect(summaries).toHaveLength(3);
    expect(plain).toMatchObject({ set: 'small', system: 'plain', requests: 2, newTokens: 24 });
    expect(eagle3?.speculation?.differingAnswers).toBe(0);
    expect(eagle3?.speculation?.meanAcceptedLength?.estimate).toBeGreaterThan(1);
    expect(categories.map(({ category }) => category)).toEqual([
      ...['code', 'code', 'code'],
      ...['chat', 'chat', 'chat'],
    ]);
  });

  it('begins with another system at every prompt, and does not count the warm-up', async () => {
    const order: string[] = [];
    let total = 0;
    await runBenchmark(optionsWith({ maxNewTokens: 2, warmup: 2 }), {
      onStart: (count) => (total = count),
      onGeneration: ({ done, system: name }) => order.push(`${done} ${name}`),
    });
    expect(total).toBe(6);
    expect(order).toEqual(['1 plain', '2 eagle3', '3 medusa', '4 eagle3', '5 medusa', '6 plain']);
  });

  it('takes the first prompts of each set and a fresh policy for each', async () => {
    let made = 0;
    const counted = systems.map((one) => ({
      ...one,
      createPolicy: () => {
        made += 1;
        return one.createPolicy();
      },
    }));
    const promptSets = [small, { name: 'again', prompts }];
    const options = optionsWith({ systems: counted, promptSets, limit: 1, maxNewTokens: 2, warmup: 0 });
    const { records } = await runBenchmark(options);
    expect([...new Set(records.map(({ set, promptId }) => `${set} ${promptId}`))]).toEqual([
      'small p0',
      'again p0',
    ]);
    expect(made).toBe(4);
  });

  it('passes sampling on and then compares no answers', async () => {
    const sampled = optionsWith({ sampling: { temperature: 1, topK: 20 }, limit: 1, warmup: 0 });
    const first = await runBenchmark(sampled);
    const second = await runBenchmark(sampled);
    const greedy = await runBenchmark(optionsWith({ limit: 1, warmup: 0 }));
    const texts = ({ records }: typeof first) => records.map(({ text }) => text);
    expect(texts(second)).toEqual(texts(first));
    expect(texts(greedy)[0]).not.toBe(texts(first)[0]);
    expect(first.summaries[1]?.speculation?.differingAnswers).toBeUndefined();
  });

  it('keeps whole prompts only when it is interrupted', async () => {
    const abort = new AbortController();
    const { records, interrupted } = await runBenchmark(optionsWith({ warmup: 0, signal: abort.signal }), {
      onGeneration({ done }) {
        if (done === 4) abort.abort();
      },
    });
    expect(interrupted).toBe(true);
    expect(records.map(({ promptId }) => promptId)).toEqual(['p0', 'p0', 'p0']);
  });

  it('reports a drafter that fails and finishes its answers without it', async () => {
    const medusa = systems[1]!.drafter;
    const broken: Drafter = {
      ...medusa,
      prepare: () => Promise.resolve(),
      startSession: () => ({
        room: 100,
        observe: () => undefined,
        close: () => undefined,
        catchUp: () => Promise.resolve(),
        suggest: () => noSuggestion,
        propose: () => Promise.reject(new MistletoeError('drafter', 'The drafter returned NaN.')),
      }),
    };
    const notices: string[] = [];
    const { summaries } = await runBenchmark(
      optionsWith({ systems: [{ ...systems[1]!, drafter: broken }], warmup: 0 }),
      { onNotice: (message) => notices.push(message) },
    );
    expect(summaries[1]?.speculation).toMatchObject({ drafterFailures: 2, differingAnswers: 0 });
    expect(notices[0]).toMatch(/^medusa, prompt p0: The drafter returned NaN\..*plain decoding/);
  });

  it('refuses the same system twice and a prompt that does not fit, before anything runs', async () => {
    await expect(runBenchmark(optionsWith({ systems: [systems[0]!, systems[0]!] }))).rejects.toThrow(
      /eagle3 with chain:3 is in the benchmark already/,
    );
    const long = inlinePrompt('word '.repeat(3000));
    let generations = 0;
    await expect(
      runBenchmark(optionsWith({ promptSets: [small, { name: 'long', prompts: [long] }] }), {
        onGeneration: () => (generations += 1),
      }),
    ).rejects.toThrow(/Prompt prompt of long has \d+ tokens/);
    expect(generations).toBe(0);
  });
});

describe('the record of an answer', () => {
  it('sees answers that differ in a token or in length', async () => {
    const { records } = await runBenchmark(optionsWith({ limit: 1, warmup: 0 }));
    const [, record] = records;
    const own = { ...record!, ...record!.speculation!, preparationMs: 0, promptTokenIds: [], origins: [] };
    const equalsPlain = (tokenIds: readonly number[]) =>
      recordAnswer({
        ...{ set: 'small', prompt: prompts[0]!, system: 'eagle3', policy: 'chain:3', isGreedy: true },
        generation: own,
        plain: { ...own, tokenIds },
      }).speculation?.equalsPlain;
    expect(equalsPlain(own.tokenIds)).toBe(true);
    expect(equalsPlain(own.tokenIds.slice(0, -1))).toBe(false);
    expect(equalsPlain(own.tokenIds.with(3, 0))).toBe(false);
  });
});
