/**
 * Decoding the bundled target with weights in 8 and 4 bits beside float32, in turns: time of a pass, perplexity of the
 * questions, and the share of the float32 answers' tokens that each type would choose too (its argmax along the answer).
 * Options: --prompts 24 --tokens 48
 */
import { parseArgs } from 'node:util';
import { bundledTarget } from '../src/core/package-files.js';
import { decodePlain } from '../src/decode/generate.js';
import { type Target, encodePrompt, openTarget } from '../src/decode/target.js';
import { createOnnxRuntime } from '../src/runtime/onnx/onnx-runtime.js';
import { loadPrompts } from '../src/text/prompts/prompt-set.js';
import { type Task, compareSpeed, decoding, MistletoeSequence } from './contenders.js';
import { promptFolder, promptSets } from './prompt-sets.js';
import { printTable } from './stopwatch.js';

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

const contenders = targets.map(({ model }, place) => [names[place]!, new MistletoeSequence(model)] as const);
const fiveRows: Task = { name: '5 rows, context 200', context: 200, rows: 5, scores: 'all' };
await compareSpeed(
  `passes of the bundled target, ${threads} threads, in turns`,
  [contenders[0]!, ...contenders.slice(1)],
  [decoding(64), decoding(512), decoding(1500), fiveRows],
  names.slice(1).map((name) => [name, names[0]!]),
);
await compareAnswers();
for (const runtime of runtimes) await runtime.dispose();

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
