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
import { bundledTarget } from '../src/core/package-files.js';
import { encodePrompt, openTarget } from '../src/decode/target.js';
import { createOnnxRuntime } from '../src/runtime/onnx/onnx-runtime.js';
import { type Task, compareAnswers, compareSpeed, decoding, MistletoeSequence } from './contenders.js';
import { writeGguf } from '../test/support/checkpoint/write-gguf.js';
import { type LlamaCpp, findLlamaCpp, float32Cache, howToInstall } from './llama-addon.js';
import { printNote, recording } from './stopwatch.js';

const threads = 2;
const contextOptions = { threads, contextSize: 2048, batchSize: 512 };
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

const fourRows: Task = { name: '4 rows, context 200', context: 200, rows: 4, scores: 'all' };
const reading: Task = { name: 'prefill, 512 tokens', context: 0, rows: 512, scores: 'last' };
const tasks = [decoding(64), decoding(512), decoding(1500), fourRows];

const kinds = [
  { quantization: undefined, type: 'F32', name: ', default' },
  { quantization: 'int8', type: 'Q8_0', name: ', q8_0' },
  { quantization: 'int4', type: 'Q4_0', name: ', q4_0' },
] as const;

/** Does nothing but note how to install it where llama.cpp is missing. */
export async function compareWithLlamaCpp(): Promise<void> {
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
    for (const kind of kinds) await compareKind(llamaCpp, folder, kind);
  } finally {
    rmSync(folder, { recursive: true, force: true });
    await llamaCpp.dispose();
  }
}

async function compareKind(
  llamaCpp: LlamaCpp,
  folder: string,
  { quantization, type, name }: (typeof kinds)[number],
): Promise<void> {
  const runtime = createOnnxRuntime({ threads, quantization });
  const target = await openTarget(bundledTarget, { runtime });
  await target.model.prepare();
  const path = join(folder, `${type}.gguf`);
  await writeGguf(await openCheckpoint(bundledTarget), path, { type });
  const byDefault = await llamaCpp.openContext(path, contextOptions);
  const own = ['Mistletoe', new MistletoeSequence(target.model)] as const;
  const other = [`llama.cpp${name}`, byDefault] as const;
  if (quantization === undefined) {
    const cache = { flashAttention: false, kvCacheKeyType: float32Cache, kvCacheValueType: float32Cache };
    const likeOurs = await llamaCpp.openContext(path, { ...contextOptions, ...cache });
    const alike = ['llama.cpp, float32 cache', likeOurs] as const;
    const promptIds = await Promise.all(prompts.map((prompt) => encodePrompt(target, prompt)));
    await compareAnswers([own, other, alike], promptIds, 32);
    const speeds = [other, alike].map(([base]) => [own[0], base] as const);
    await compareSpeed('bundled target', [own, other, alike], [...tasks, reading], speeds);
    await likeOurs.dispose();
  } else {
    await compareSpeed(`bundled target, ${quantization}`, [own, other], tasks, [[own[0], other[0]]]);
  }
  await byDefault.dispose();
  await runtime.dispose();
}
