/**
 * Mistletoe beside llama.cpp on the same weights in float32, taking turns in one process. Greedy answers are compared
 * first: timing means nothing between engines that answer differently. llama.cpp runs with its defaults (flash attention,
 * keys and values in float16), and once more the way Mistletoe does (plain attention, keys and values in float32).
 * Then int8 and int4 beside q8_0 and q4_0; these round weights differently, so their answers are not compared.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { openCheckpoint } from '../src/checkpoint/open-checkpoint.js';
import { bundledTarget } from '../src/decode/bundled-models.js';
import { encodePrompt, openTarget } from '../src/decode/target.js';
import type { CausalModel } from '../src/model/causal-model.js';
import { createOnnxRuntime } from '../src/runtime/onnx/onnx-runtime.js';
import type { Contenders, Task } from './contenders.js';
import { compareAnswers, measureAll, MistletoeSequence, printComparison } from './contenders.js';
import { writeGguf } from '../test/support/checkpoint/write-gguf.js';
import { type LlamaCpp, findLlamaCpp, float32Cache, howToInstall } from './llama-addon.js';
import { writeRandomCheckpoint } from './random-checkpoint.js';
import { printNote, recording } from './stopwatch.js';

const threads = 2;
const contextSize = 2048;
const prompts = [
  'Write a Python function that returns the factorial of a number.',
  'Why is the sky blue?',
  'A farmer has 17 sheep and buys 5 more. How many sheep does he have now?',
  'Write a short story about a lighthouse.',
  'Explain what a hash table is.',
  'Name three European capitals.',
  'def reverse(text):',
  'How do I bake bread?',
];

const decoding = (context: number): Task => ({
  name: `decoding, context ${context}`,
  context,
  rows: 1,
  scores: 'all',
});
const fourRows: Task = { name: '4 rows, context 200', context: 200, rows: 4, scores: 'all' };
const reading: Task = { name: 'prefill, 512 tokens', context: 0, rows: 512, scores: 'last' };

/** Does nothing but note how to install it where llama.cpp is missing. */
export async function compareWithLlamaCpp(isLargeIncluded: boolean): Promise<void> {
  const llamaCpp = await findLlamaCpp(process.env.MISTLETOE_LLAMA_CPP);
  if (llamaCpp === undefined) {
    printNote(howToInstall);
    return;
  }
  recording.versions['llama.cpp'] = llamaCpp.description;
  const [load] = loadavg();
  if (load! > 0.5)
    printNote(
      `The machine was busy before the run (load ${load!.toFixed(1)}). Threads of llama.cpp spin while they wait for each other, so it loses more than Mistletoe: measure again on a quiet machine.`,
    );
  const folder = mkdtempSync(join(tmpdir(), 'mistletoe-llama-cpp-'));
  try {
    await compareBundled(llamaCpp, folder);
    await compareQuantized(llamaCpp, folder);
    if (isLargeIncluded) await compareLarge(llamaCpp, folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
    await llamaCpp.dispose();
  }
}

async function compareBundled(llamaCpp: LlamaCpp, folder: string): Promise<void> {
  const runtime = createOnnxRuntime({ threads });
  const target = await openTarget(bundledTarget, { runtime });
  const promptIds = await Promise.all(prompts.map((prompt) => encodePrompt(target, prompt)));
  await withContenders(llamaCpp, target.model, { checkpoint: bundledTarget, folder }, async (contenders) => {
    await compareAnswers(contenders, promptIds, 32);
    const tasks = [decoding(64), decoding(512), decoding(1500), fourRows];
    const rows = await measureAll(contenders, tasks, { turns: 10, passes: 20, limitMs: 20_000 });
    rows.push(...(await measureAll(contenders, [reading], { turns: 5, passes: 3, limitMs: 20_000 })));
    printComparison('bundled target', contenders, rows);
  });
  await runtime.dispose();
}

async function compareQuantized(llamaCpp: LlamaCpp, folder: string): Promise<void> {
  for (const [quantization, type] of [
    ['int8', 'Q8_0'],
    ['int4', 'Q4_0'],
  ] as const) {
    const runtime = createOnnxRuntime({ threads, quantization });
    const { model } = await openTarget(bundledTarget, { runtime });
    await model.prepare();
    const path = join(folder, `${type}.gguf`);
    await writeGguf(await openCheckpoint(bundledTarget), path, { type });
    const llamaModel = await llamaCpp.loadModel(path);
    const context = await llamaModel.createContext({ threads, contextSize, batchSize: 512 });
    const contenders: Contenders = [
      [`Mistletoe, ${quantization}`, new MistletoeSequence(model)],
      [`llama.cpp, ${type.toLowerCase()}`, context],
    ];
    const tasks = [decoding(64), decoding(512), decoding(1500), fourRows];
    const rows = await measureAll(contenders, tasks, { turns: 10, passes: 20, limitMs: 20_000 });
    printComparison(`bundled target, ${quantization}`, contenders, rows);
    await context.dispose();
    await llamaModel.dispose();
    await runtime.dispose();
  }
}

async function compareLarge(llamaCpp: LlamaCpp, folder: string): Promise<void> {
  const parameters = writeRandomCheckpoint(folder);
  const runtime = createOnnxRuntime({ threads });
  const { model } = await openTarget(folder, { runtime, cacheFolder: join(folder, 'cache'), chat: false });
  const promptIds = [1, 2, 3, 4].map((prompt) =>
    Array.from({ length: 16 }, (_, index) => (7919 * prompt + 104729 * index) % 32000),
  );
  await withContenders(llamaCpp, model, { checkpoint: folder, folder }, async (contenders) => {
    await compareAnswers(contenders, promptIds, 8);
    const rows = await measureAll(contenders, [decoding(200), fourRows], {
      turns: 5,
      passes: 4,
      limitMs: 60_000,
    });
    printComparison(`${(parameters / 1e9).toFixed(2)} B parameters, random`, contenders, rows);
  });
  await runtime.dispose();
}

interface Places {
  readonly checkpoint: string;
  /** For the GGUF file. */
  readonly folder: string;
}

async function withContenders(
  llamaCpp: LlamaCpp,
  model: CausalModel,
  { checkpoint, folder }: Places,
  action: (contenders: Contenders) => Promise<void>,
): Promise<void> {
  await model.prepare();
  const path = join(folder, 'model.gguf');
  await writeGguf(await openCheckpoint(checkpoint), path);
  const llamaModel = await llamaCpp.loadModel(path);
  const usual = { threads, contextSize, batchSize: 512 };
  const byDefault = await llamaModel.createContext(usual);
  const alike = await llamaModel.createContext({
    ...usual,
    flashAttention: false,
    kvCacheKeyType: float32Cache,
    kvCacheValueType: float32Cache,
  });
  await action([
    ['Mistletoe', new MistletoeSequence(model)],
    ['llama.cpp, default', byDefault],
    ['llama.cpp, float32 cache', alike],
  ]);
  await byDefault.dispose();
  await alike.dispose();
  await llamaModel.dispose();
}
