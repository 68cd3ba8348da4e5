/**
 * Decoding and prefill of the bundled target, with the share of memory bandwidth and of arithmetic that they reach. Beside
 * llama.cpp on the same weights if MISTLETOE_LLAMA_CPP names a folder that has it.
 */
import { bundledTarget } from '../src/core/package-files.js';
import { prefill } from '../src/decode/prompt-reading.js';
import { sum } from '../src/graph/operations/reductions.js';
import { input } from '../src/graph/tensor.js';
import { type CausalModel, loadModel } from '../src/model/causal-model.js';
import { createOnnxRuntime } from '../src/runtime/onnx/onnx-runtime.js';
import { float32 } from '../src/runtime/program.js';
import { compareWithLlamaCpp } from './llama-cpp.js';
import { measureProduct } from './comparison.js';
import { printNote, printTable, time } from './stopwatch.js';

const threads = 2;
const runtime = createOnnxRuntime({ threads });
const model = await loadModel(bundledTarget, { runtime });
await model.prepare();
/** What this machine can do at most through the same runtime. */
const peaks = { gigabytesPerSecond: await measureReading(), gigaflops: await measureProduct(runtime) };
const percent = (part: number, whole: number): string => `${Math.round((100 * part) / whole)} %`;
const rows: string[][] = [['what', 'best', 'median', 'achieved', 'of the peak']];

// Decoding reads every weight except the embedding table once per token.
const { vocabularySize, hiddenSize, layerCount } = model.configuration;
const weightBytes = 4 * (countWeights(model) - vocabularySize * hiddenSize);
for (const context of [64, 512, 1500]) {
  const cache = model.createCache();
  const ids = Array.from({ length: context }, (_, index) => 300 + ((index * 37) % 3000));
  await prefill(model, cache, ids, { want: [] });
  const step = await time(
    () => model.forward({ tokens: Int32Array.of(500), cache, want: ['argmax'] }),
    60,
    10,
  );
  const achieved = (weightBytes + 2 * 4 * layerCount * context * hiddenSize) / step.bestMs / 1e6;
  rows.push([
    `decoding, context ${context}`,
    `${(1000 / step.bestMs).toFixed(0)} tokens/s`,
    `${step.medianMs.toFixed(2)} ms/token`,
    `${achieved.toFixed(1)} GB/s`,
    percent(achieved, peaks.gigabytesPerSecond),
  ]);
}
const prompt = Array.from({ length: 512 }, (_, index) => 300 + ((index * 53) % 3000));
const reading = await time(() => prefill(model, model.createCache(), prompt, { want: ['argmax'] }), 5);
const gigaflops = (2 * weightBytes * prompt.length) / 4 / reading.bestMs / 1e6;
rows.push([
  'prefill, 512 tokens',
  `${((1000 * prompt.length) / reading.bestMs).toFixed(0)} tokens/s`,
  `${reading.medianMs.toFixed(0)} ms`,
  `${gigaflops.toFixed(0)} GFLOP/s`,
  percent(gigaflops, peaks.gigaflops),
]);
printTable(rows, `bundled target, ${threads} threads`);
printNote(
  `Peak through the same runtime: ${peaks.gigabytesPerSecond.toFixed(1)} GB/s read, ${peaks.gigaflops.toFixed(0)} GFLOP/s float32.`,
);
await runtime.dispose();
await compareWithLlamaCpp();

async function measureReading(): Promise<number> {
  const shape = [64, 1 << 20];
  const data = new Float32Array(shape[0]! * shape[1]!).fill(1);
  const program = await runtime.compile({ total: sum(input('x', shape), [1]) });
  const { bestMs } = await time(() => program.run({ x: float32(data, shape) }), 8);
  return data.byteLength / bestMs / 1e6;
}

function countWeights({ weights }: CausalModel): number {
  let total = 0;
  for (const { shape } of weights.tensors.values())
    total += shape.reduce((product, size) => product * size, 1);
  return total;
}
