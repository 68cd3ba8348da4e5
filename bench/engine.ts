/**
 * The engine on this machine: decoding, prefill, and a batch of 64 x 64 tokens forward and backward, each beside what
 * memory and arithmetic allow; and the same batch in PyTorch, in the same run, where Debian's python3-torch is there.
 * Run: npm run bench:engine
 */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { bundledTarget, packageRoot } from '../src/decode/bundled-models.js';
import { prefill } from '../src/decode/prefill.js';
import { gradient } from '../src/graph/gradient.js';
import { input } from '../src/graph/operations/leaves.js';
import { mean } from '../src/graph/operations/reductions.js';
import { reshape } from '../src/graph/operations/shaping.js';
import { describeMachine } from '../src/measure/machine.js';
import { treeMask } from '../src/model/attention-inputs.js';
import type { CausalModel } from '../src/model/causal-model.js';
import { loadModel } from '../src/model/causal-model.js';
import { projectToVocabulary, runDecoder } from '../src/model/decoder.js';
import { createOnnxRuntime } from '../src/runtime/onnx/onnx-runtime.js';
import { float32 } from '../src/runtime/program.js';
import { measurePeaks } from './peaks.js';
import { printTable, time } from './stopwatch.js';

const threads = 2;
const batch = 64;
const positions = 64;

const machine = describeMachine();
console.log(
  `${machine.processor} (${machine.architecture}), ${threads} threads, Node ${machine.nodeVersion}\n`,
);
const runtime = createOnnxRuntime({ threads });
const model = await loadModel(bundledTarget, { runtime });
await model.prepare();
const peaks = await measurePeaks(runtime);
const parameters = countWeights(model);
const percent = (part: number, whole: number): string => `${Math.round((100 * part) / whole)}%`;
const rows: string[][] = [['what', 'best', 'median', 'achieved', 'of the peak']];

// Decoding reads every weight but the embedding table once a token.
const { vocabularySize, hiddenSize } = model.configuration;
const weightBytes = 4 * (parameters - vocabularySize * hiddenSize);
for (const context of [64, 512, 1500]) {
  const cache = model.createCache();
  const ids = Array.from({ length: context }, (_, index) => 300 + ((index * 37) % 3000));
  await prefill(model, cache, ids, { want: [] });
  const step = await time(
    () => model.forward({ tokens: Int32Array.of(500), cache, want: ['argmax'] }),
    60,
    10,
  );
  const bytes = weightBytes + 2 * 4 * model.configuration.layerCount * context * hiddenSize;
  const achieved = bytes / step.bestMs / 1e6;
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
const readingFlops = (2 * weightBytes * prompt.length) / 4 / reading.bestMs / 1e6;
rows.push([
  'prefill, 512 tokens',
  `${((1000 * prompt.length) / reading.bestMs).toFixed(0)} tokens/s`,
  `${reading.medianMs.toFixed(0)} ms`,
  `${readingFlops.toFixed(0)} GFLOP/s`,
  percent(readingFlops, peaks.gigaflops),
]);

const passes = await buildPasses(model);
const flops = (2 * (parameters - vocabularySize * hiddenSize) * batch * positions) / 1e6;
for (const [name, run, work] of [
  ['forward, 64 x 64', passes.forward, flops],
  ['forward + backward, 64 x 64', passes.both, 2 * flops],
] as const) {
  const timing = await time(run, 3, 1);
  const achieved = work / timing.bestMs;
  rows.push([
    name,
    `${timing.bestMs.toFixed(0)} ms`,
    `${timing.medianMs.toFixed(0)} ms`,
    `${achieved.toFixed(0)} GFLOP/s`,
    percent(achieved, peaks.gigaflops),
  ]);
}
rows.push(...comparePyTorch());
console.log(
  `peak: ${peaks.gigabytesPerSecond.toFixed(1)} GB/s read, ${peaks.gigaflops.toFixed(0)} GFLOP/s float32\n`,
);
printTable(rows);
await runtime.dispose();

function countWeights({ weights }: CausalModel): number {
  let total = 0;
  for (const { shape } of weights.tensors.values())
    total += shape.reduce((product, size) => product * size, 1);
  return total;
}

async function buildPasses({ configuration, scope, weights, rotary }: CausalModel) {
  const embeddings = input('embeddings', [batch, positions, configuration.hiddenSize]);
  const angles = (name: string) => input(name, [positions, configuration.headSize / 2]);
  const context = {
    cosine: angles('cosine'),
    sine: angles('sine'),
    mask: input('mask', [positions, positions]),
  };
  const { features } = runDecoder(configuration, scope, embeddings, { context });
  const loss = reshape(mean(projectToVocabulary(configuration, scope, features), [0, 1, 2]), []);
  const [byEmbeddings] = gradient(loss, [embeddings]);
  const forward = await runtime.compile({ loss }, [weights]);
  const both = await runtime.compile({ loss, gradient: byEmbeddings! }, [weights]);
  const turned = rotary.anglesAt(Int32Array.from({ length: positions }, (_, position) => position));
  const mask = treeMask({ count: positions, pastLength: 1 });
  const causal = new Float32Array(positions * positions);
  for (let row = 0; row < positions; row++) {
    causal.set(mask.subarray(row * (positions + 1) + 1, (row + 1) * (positions + 1)), row * positions);
  }
  const size = batch * positions * configuration.hiddenSize;
  const inputs = {
    embeddings: float32(
      Float32Array.from({ length: size }, (_, index) => Math.sin(index)),
      [batch, positions, configuration.hiddenSize],
    ),
    cosine: float32(turned.cosine, [positions, configuration.headSize / 2]),
    sine: float32(turned.sine, [positions, configuration.headSize / 2]),
    mask: float32(causal, [positions, positions]),
  };
  return { forward: () => forward.run(inputs), both: () => both.run(inputs) };
}

function comparePyTorch(): string[][] {
  const script = join(packageRoot, 'bench/torch/forward_backward.py');
  const python = ['/usr/bin/python3', 'python3'].find((path) => path === 'python3' || existsSync(path))!;
  const {
    hiddenSize: hidden,
    intermediateSize,
    layerCount,
    headCount,
    vocabularySize: vocabulary,
  } = model.configuration;
  const sizes = [hidden, intermediateSize, layerCount, headCount, vocabulary, batch, positions, threads].map(
    String,
  );
  const result = spawnSync(python, [script, ...sizes], { encoding: 'utf8' });
  if (result.status !== 0) return [['PyTorch', 'not installed', '', '', '']];
  const torch = JSON.parse(result.stdout) as { version: string; forwardMs: number; bothMs: number };
  return [
    [`PyTorch ${torch.version}, forward`, `${torch.forwardMs.toFixed(0)} ms`, '', '', ''],
    [`PyTorch ${torch.version}, forward + backward`, `${torch.bothMs.toFixed(0)} ms`, '', '', ''],
  ];
}
