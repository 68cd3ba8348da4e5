/** Every published target against the reference in double precision: all logits of a text, and greedy answers. */
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { makeTemporaryFolder } from '../support/checkpoint/temporary-folder.js';
import { decodePlain } from '../../src/decode/generate.js';
import type { CausalModel } from '../../src/model/causal-model.js';
import { loadModel } from '../../src/model/causal-model.js';
import { createOnnxRuntime } from '../../src/runtime/onnx/onnx-runtime.js';
import { randomTokens } from '../support/tiny-pair.js';
import type { DecoderFacts, DecoderPass } from './float64-model.js';
import { Float64Model } from './float64-model.js';
import { writePublished } from './published-layouts.js';
import type { PublishedTarget } from './published-targets.js';
import { drafterTarget, partlySparseTarget, publishedTargets } from './published-targets.js';

const temporary = makeTemporaryFolder();
const runtime = createOnnxRuntime({ threads: 1 });
afterAll(async () => {
  await runtime.dispose();
  temporary.remove();
});

const length = 24;
/** Far above what single precision costs, far below what any wrong fact does. */
const tolerance = 1e-3;
const leastMargin = 1e-4;
const opened = new Map<PublishedTarget, Promise<CausalModel>>();

function open(target: PublishedTarget): Promise<CausalModel> {
  const known = opened.get(target);
  if (known !== undefined) return known;
  const path = writePublished(join(temporary.path, String(opened.size)), target.folder);
  const model = loadModel(path, { runtime, cacheFolder: join(temporary.path, 'cache') });
  opened.set(target, model);
  return model;
}

function referenceOf({ folder, facts }: PublishedTarget, changes: Partial<DecoderFacts> = {}): Float64Model {
  return new Float64Model(folder.tensors, { ...facts, ...changes });
}

function textFor({ name, folder }: PublishedTarget): number[] {
  return randomTokens(name, length, Number(folder.config.vocab_size));
}

async function largestDifference(model: CausalModel, { tokens, logits }: DecoderPass): Promise<number> {
  const cache = model.createCache();
  const result = await model.forward({ tokens: Int32Array.from(tokens), cache, want: ['logits'] });
  const expected = logits.flatMap((row) => Array.from(row));
  return expected.reduce(
    (largest, value, index) => Math.max(largest, Math.abs(value - result.logits![index]!)),
    0,
  );
}

describe.each([...publishedTargets, drafterTarget, partlySparseTarget])('$name', (target) => {
  it('gives the logits of the reference', async () => {
    const pass = referenceOf(target).run(textFor(target));
    expect(await largestDifference(await open(target), pass)).toBeLessThan(tolerance);
  });
});

describe.each(publishedTargets)('$name', (target) => {
  it('answers as the reference', async () => {
    const reference = referenceOf(target);
    const promptIds = textFor(target).slice(0, 10);
    const expected = [...promptIds];
    for (let step = 0; step < 8; step++) {
      const logits = reference.run(expected).logits.at(-1)!;
      const [best, second] = [...logits].sort((left, right) => right - left) as [number, number];
      expect(best - second).toBeGreaterThan(leastMargin);
      expected.push(logits.indexOf(best));
    }
    const { tokenIds } = await decodePlain(await open(target), {
      ...{ promptIds, maxNewTokens: 8, stopIds: [], seed: 0, sampling: { temperature: 0 } },
    });
    expect([...promptIds, ...tokenIds]).toEqual(expected);
  });
});

/** A judge that never says no proves nothing: with one fact wrong, the reference has to disagree. */
describe('a reference with one fact wrong', () => {
  const find = (name: string): PublishedTarget => publishedTargets.find((target) => target.name === name)!;
  const mixture = find('Qwen/Qwen3-30B-A3B');
  const llama31 = find('meta-llama/Llama-3.1-8B-Instruct');
  const cases: readonly [string, PublishedTarget, Partial<DecoderFacts>][] = [
    ['rotary base', drafterTarget, { rotary: { base: 10_000 } }],
    ['rotary scaling', llama31, { rotary: { base: 500_000 } }],
    ['sliding window', find('mistralai/Mistral-7B-Instruct-v0.1'), { window: Infinity }],
    ['epsilon', drafterTarget, { normEpsilon: 1e-2 }],
    ['number of experts per token', mixture, { experts: { ...mixture.facts.experts!, perToken: 2 } }],
    ['division by the sum', mixture, { experts: { ...mixture.facts.experts!, normalized: false } }],
    [
      'added division',
      partlySparseTarget,
      { experts: { ...partlySparseTarget.facts.experts!, normalized: true } },
    ],
    ['key-value heads', drafterTarget, { heads: 2, keyValueHeads: 1 }],
  ];
  it.each(cases)('differs by its %s', async (_, target, changes) => {
    const model = await open(target);
    const wrong = changes.heads === undefined ? referenceOf(target, changes) : withMergedHeads(target);
    expect(await largestDifference(model, wrong.run(textFor(target)))).toBeGreaterThan(10 * tolerance);
  });

  /** Heads of one group that read the other group's keys and values. */
  function withMergedHeads(target: PublishedTarget): Float64Model {
    const swapped = Object.entries(target.folder.tensors).map(([name, tensor]) => {
      if (!/[kv]_proj\.weight$/.test(name)) return [name, tensor] as const;
      const half = tensor.values.length / 2;
      const values = Array.from(tensor.values);
      return [name, { ...tensor, values: [...values.slice(half), ...values.slice(0, half)] }] as const;
    });
    return new Float64Model(Object.fromEntries(swapped), target.facts);
  }
});
