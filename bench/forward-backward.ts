/**
 * A batch of 64 x 64 tokens through the target, forward and backward to the embeddings, taking turns with PyTorch.
 * Options: [TURNS]
 */
import { bundledTarget } from '../src/core/package-files.js';
import { gradient } from '../src/graph/gradient.js';
import { input } from '../src/graph/tensor.js';
import { mean } from '../src/graph/operations/reductions.js';
import { reshape } from '../src/graph/operations/shaping.js';
import { treeMask } from '../src/model/attention-inputs.js';
import { type CausalModel, loadModel } from '../src/model/causal-model.js';
import { projectToVocabulary, runDecoder } from '../src/model/decoder.js';
import { createOnnxRuntime } from '../src/runtime/onnx/onnx-runtime.js';
import { float32 } from '../src/runtime/program.js';
import { compareWithTorch, sizesOf } from './comparison.js';

const threads = 2;
const [batch, positions] = [64, 64];
const turns = Number(process.argv[2] ?? 5);
const runtime = createOnnxRuntime({ threads });
const model = await loadModel(bundledTarget, { runtime });
await compareWithTorch({
  title: `${batch} x ${positions} tokens, ${threads} threads`,
  runtime,
  turns,
  parts: await buildPasses(model),
  script: 'forward_backward.py',
  settings: { ...sizesOf(model), batch, positions, threads },
});
await runtime.dispose();

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
  return { forward: () => forward.run(inputs), 'forward + backward': () => both.run(inputs) };
}
