/**
 * Decoding the bundled target with weights in 8 and 4 bits beside float32, in turns: time of a pass, perplexity of the
 * questions, and the share of the float32 answers' tokens that each type would choose too (its argmax along the answer).
 * Options: --prompts 24 --tokens 48
 */
import { parseArgs } from 'node:util';
import { bundledTarget } from '../src/decode/bundled-models.js';
import { decodePlain, prefill } from '../src/decode/plain.js';
import { type Target, encodePrompt, openTarget } from '../src/decode/target.js';
import { createOnnxRuntime } from '../src/runtime/onnx/onnx-runtime.js';
import { loadPrompts } from '../src/text/prompts/prompt-set.js';
import { promptFolder, promptSets } from './prompt-sets.js';
import { median, printTable } from './stopwatch.js';

const { values: options } = parseArgs({
  options: {
    prompts: { type: 'string', default: '24' },
    tokens: { type: 'string', default: '48' },
  },
});
const threads = 2;
const types = [undefined, 'int8', 'int4'] as const;
const runtimes = types.map((quantization) => createOnnxRuntime({ threads, quantization }));
const targets = await Promise.all(runtimes.map((runtime) => openTarget(bundledTarget, { runtime })));
const names = types.map((type) => type ?? 'float32');

await compareSpeed();
await compareAnswers();
for (const runtime of runtimes) await runtime.dispose();

async function compareSpeed(): Promise<void> {
  const table = [['pass', ...names.map((name) => `${name}, best (median)`), 'int8', 'int4']];
  for (const [context, rows] of [
    [64, 1],
    [512, 1],
    [1500, 1],
    [200, 5],
  ] as const) {
    const ids = Array.from({ length: context }, (_, index) => 300 + ((index * 37) % 3000));
    const passes = await Promise.all(
      targets.map(async ({ model }) => {
        const cache = model.createCache();
        await prefill(model, cache, ids, { want: [] });
        const tokens = Int32Array.from({ length: rows }, (_, row) => 500 + row);
        return { cache, run: () => model.forward({ tokens, cache, want: ['argmax'] }) };
      }),
    );
    const times: number[][] = passes.map(() => []);
    // In turns of several passes, because a pass of one model takes the others' weights out of the processor's cache.
    for (let round = 0; round < 10; round++)
      for (const [place, { cache, run }] of passes.entries())
        for (let pass = 0; pass < 12; pass++) {
          const start = performance.now();
          await run();
          if (pass >= 3) times[place]!.push(performance.now() - start);
          cache.truncate(context);
        }
    const best = times.map((each) => Math.min(...each));
    table.push([
      `${rows} ${rows === 1 ? 'row' : 'rows'}, context ${context}`,
      ...times.map((each, place) => `${best[place]!.toFixed(2)} (${median(each).toFixed(2)}) ms`),
      ...best.slice(1).map((each) => `${(best[0]! / each).toFixed(2)}x`),
    ]);
  }
  printTable(table, `passes of the bundled target, ${threads} threads, in turns`);
}

interface Judged {
  readonly same: number;
  readonly total: number;
  readonly nats: number;
  readonly scored: number;
}

/** One pass over the question and float32's answer. */
async function judge(
  { model }: Target,
  prompt: readonly number[],
  answer: readonly number[],
): Promise<Judged> {
  const tokens = Int32Array.from([...prompt, ...answer]);
  const cache = model.createCache();
  const { argmax, logits } = await model.forward({ tokens, cache, want: ['argmax', 'logits'] });
  cache.truncate(0);
  const width = model.configuration.vocabularySize;
  let nats = 0;
  for (let place = 1; place < prompt.length; place++) {
    const row = logits!.subarray((place - 1) * width, place * width);
    const highest = row.reduce((left, right) => Math.max(left, right), -Infinity);
    const mass = row.reduce((sum, value) => sum + Math.exp(value - highest), 0);
    nats += highest + Math.log(mass) - row[prompt[place]!]!;
  }
  const same = answer.filter((id, place) => argmax![prompt.length - 1 + place] === id).length;
  return { same, total: answer.length, nats, scored: prompt.length - 1 };
}

async function compareAnswers(): Promise<void> {
  const table = [
    ['prompts', ...names.map((name) => `perplexity, ${name}`), 'same token, int8', 'same token, int4'],
  ];
  for (const set of promptSets) {
    const prompts = (await loadPrompts(set, { folder: promptFolder })).slice(0, Number(options.prompts));
    const sums = types.map(() => ({ same: 0, total: 0, nats: 0, scored: 0 }));
    for (const { text } of prompts) {
      const [first] = targets;
      const promptIds = await encodePrompt(first!, text);
      const { tokenIds } = await decodePlain(first!.model, {
        ...{ promptIds, maxNewTokens: Number(options.tokens), stopIds: first!.stopIds },
        ...{ sampling: { temperature: 0 }, seed: 0 },
      });
      for (const [place, target] of targets.entries()) {
        const judged = await judge(target, promptIds, tokenIds);
        for (const key of ['same', 'total', 'nats', 'scored'] as const) sums[place]![key] += judged[key];
      }
    }
    table.push([
      set,
      ...sums.map(({ nats, scored }) => Math.exp(nats / scored).toFixed(2)),
      ...sums.slice(1).map(({ same, total }) => `${((100 * same) / total).toFixed(1)} %`),
    ]);
  }
  printTable(table, `${options.prompts} prompts of each set, answers of at most ${options.tokens} tokens`);
}
