/**
 * A batch of 64 x 64 tokens through the target, forward and backward to the embeddings, taking turns with PyTorch.
 * Options: [TURNS]
 */
import { bundledTarget } from '../src/decode/bundled-models.js';
import { gradient } from '../src/graph/gradient.js';
import { input } from '../src/graph/tensor.js';
import { mean } from '../src/graph/operations/reductions.js';
import { reshape } from '../src/graph/operations/shaping.js';
import { treeMask } from '../src/model/attention-inputs.js';
import { type CausalModel, loadModel } from '../src/model/causal-model.js';
import { projectToVocabulary, runDecoder } from '../src/model/decoder.js';
import { createOnnxRuntime } from '../src/runtime/onnx/onnx-runtime.js';
import { float32 } from '../src/runtime/program.js';
import { describeProducts, formatSpeedup, measurePeaks } from './comparison.js';
import { median, printNote, printTable } from './stopwatch.js';
import { startTorch } from './torch-process.js';

const threads = 2;
const [batch, positions] = [64, 64];
const turns = Number(process.argv[2] ?? 5);
const runtime = createOnnxRuntime({ threads });
const model = await loadModel(bundledTarget, { runtime });
const own = { name: 'Mistletoe', gigaflops: (await measurePeaks(runtime)).gigaflops };
const passes = await buildPasses(model);
const torch = await startTorch('forward_backward.py', describeSizes(model));
const rows = [['pass, best (median)', 'Mistletoe', torch?.name ?? 'PyTorch', 'speed against PyTorch']];
for (const [part, title] of [
  ['forward', 'forward'],
  ['both', 'forward + backward'],
] as const) {
  const [ours, theirs]: [number[], number[]] = [[], []];
  // The first turn warms both sides up.
  for (let turn = 0; turn <= turns; turn++) {
    const start = performance.now();
    await passes[part]();
    const ms = performance.now() - start;
    const other = await torch?.run<{ ms: number }>(part);
    if (turn === 0) continue;
    ours.push(ms);
    if (other !== undefined) theirs.push(other.ms);
  }
  const cell = (times: readonly number[]): string =>
    times.length === 0 ? '' : `${Math.min(...times).toFixed(0)} (${median(times).toFixed(0)}) ms`;
  const ratio = torch === undefined ? '' : formatSpeedup(own, Math.min(...ours), torch, Math.min(...theirs));
  rows.push([title, cell(ours), cell(theirs), ratio]);
}
printTable(rows, `${batch} x ${positions} tokens, ${threads} threads, ${turns} turns`);
if (torch !== undefined) printNote(describeProducts(own, torch));
torch?.end();
await runtime.dispose();

function describeSizes({ configuration }: CausalModel) {
  return {
    hidden: configuration.hiddenSize,
    inner: configuration.intermediateSize,
    layers: configuration.layerCount,
    heads: configuration.headCount,
    vocabulary: configuration.vocabularySize,
    batch,
    positions,
    threads,
  };
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
