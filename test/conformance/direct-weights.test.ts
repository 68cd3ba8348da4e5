/** Weights that go from a checkpoint's own files to a device, which converts and places them: emulated here. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openCheckpoint } from '../../src/checkpoint/open-checkpoint.js';
import { createDirectWeights } from '../../src/checkpoint/direct-weights.js';
import type { WritableDType, WritableTensors } from '../../src/checkpoint/testing/encode-values.js';
import { mixedRecipes, mixedTensors } from '../../src/checkpoint/testing/mixed-recipes.js';
import { makeTemporaryFolder } from '../../src/checkpoint/testing/temporary-folder.js';
import { writeSafetensors } from '../../src/checkpoint/testing/write-safetensors.js';
import { resolveRecipes } from '../../src/checkpoint/weight-recipe.js';
import { decodeHalves, encodeHalves, isHalf } from '../../src/core/half-floats.js';
import { decodePlain } from '../../src/decode/plain.js';
import { always } from '../../src/decode/policy-chooser.js';
import { decodeSpeculative } from '../../src/decode/speculative.js';
import { loadDrafter } from '../../src/draft/load-drafter.js';
import { weight } from '../../src/graph/operations/leaves.js';
import type { TensorOf } from '../../src/graph/tensor.js';
import { loadModel } from '../../src/model/causal-model.js';
import { createCudaRuntime } from '../../src/runtime/cuda/cuda-runtime.js';
import { DeviceMemory } from '../../src/runtime/cuda/device-memory.js';
import { DeviceWeights } from '../../src/runtime/cuda/device-weights.js';
import { createInterpreter } from '../../src/runtime/interpreter/interpreter.js';
import { createOnnxRuntime } from '../../src/runtime/onnx/onnx-runtime.js';
import { floatsOf } from '../../src/runtime/program.js';
import type { Runtime } from '../../src/runtime/program.js';
import type { WeightStore } from '../../src/runtime/weights.js';
import { createEmulatedDevice, findCompiler } from '../support/emulated-device.js';
import { describeEmulated } from '../support/emulated-suite.js';
import { decoderTensors, llamaConfig, tiny, writeCheckpoint } from '../support/tiny-checkpoints.js';
import { drafterVariants } from '../support/tiny-drafters.js';
import { randomTokens, resolveText } from '../support/tiny-pair.js';

const temporary = makeTemporaryFolder();
afterAll(temporary.remove);

describeEmulated('weights of a checkpoint on a device', (bench) => {
  it.each(['float32', 'bfloat16', 'float16'] as const)('arrive as %s', async (type) => {
    writeSafetensors(join(temporary.path, 'model.safetensors'), mixedTensors);
    const recipes = resolveRecipes(await openCheckpoint(temporary.path), mixedRecipes);
    const outputs = Object.fromEntries(mixedRecipes.map(({ name, shape }) => [name, weight(name, shape)]));
    const whole = await createDirectWeights(recipes);
    const expected = await (await createInterpreter().compile(outputs, [whole])).run({});
    for (const store of [whole, await createDirectWeights(recipes, { pieceBytes: 30 })]) {
      const weights = new DeviceWeights(new DeviceMemory(bench.device));
      for (const [name, tensor] of Object.entries(outputs)) {
        const values = floatsOf(expected, name);
        const address = await weights.find([store], tensor as TensorOf<'weight'>, type);
        const found = isHalf(type) ? new Uint16Array(values.length) : new Float32Array(values.length);
        await bench.device.download(address, found);
        expect({ name, found }).toEqual({ name, found: isHalf(type) ? encodeHalves(values, type) : values });
      }
      await weights.dispose();
    }
  });

  it('arrive from memory and in a half type as well', async () => {
    const values = Float32Array.of(1.5, -0.1, 3e-6, 70000, -2, 0);
    for (const dtype of ['bfloat16', 'float16'] as const) {
      const data = encodeHalves(values, dtype);
      const store: WeightStore = {
        kind: 'memory',
        tensors: new Map([['w', { shape: [2, 3], data, dtype }]]),
      };
      const weights = new DeviceWeights(new DeviceMemory(bench.device));
      const tensor = weight('w', [2, 3], dtype) as TensorOf<'weight'>;
      const found = new Float32Array(6);
      await bench.device.download(await weights.find([store], tensor, 'float32'), found);
      expect(found).toEqual(decodeHalves(data, dtype));
      await weights.dispose();
    }
  });
});

describe.skipIf(findCompiler() === undefined)('a checkpoint on CUDA', () => {
  const onnx = createOnnxRuntime({ threads: 1 });
  let cuda: Runtime;
  beforeAll(() => {
    cuda = createCudaRuntime(createEmulatedDevice());
  });
  afterAll(async () => {
    await onnx.dispose();
    await cuda.dispose();
  });
  const request = {
    promptIds: randomTokens('direct', 7, tiny.vocabularySize),
    ...{ maxNewTokens: 12, stopIds: [], sampling: { temperature: 0 }, seed: 0 },
  };

  it.each<[WritableDType, string, string]>([
    ['F32', 'model.safetensors', 'hydra'],
    ['BF16', 'model.safetensors', 'eagle3'],
    ['F16', 'model.safetensors', 'medusa'],
    ['BF16', 'pytorch_model.bin', 'eagle'],
  ])('stored as %s in %s answers with %s as on ONNX Runtime, without a cache', async (dtype, file, kind) => {
    const folder = join(temporary.path, `${dtype} ${file}`);
    const stored = Object.entries(decoderTensors(tiny)).map(([name, tensor]) => [name, { ...tensor, dtype }]);
    writeCheckpoint(folder, file, Object.fromEntries(stored) as WritableTensors, llamaConfig(tiny));
    const drafterFolder = drafterVariants
      .find((variant) => variant.kind === kind)!
      .write(join(folder, 'drafter'), tiny);
    const answers = [];
    for (const runtime of [onnx, cuda]) {
      const cacheFolder = join(folder, `cache of ${runtime.name}`);
      const target = await loadModel(folder, { runtime, cacheFolder });
      const drafter = await loadDrafter(drafterFolder, { target, cacheFolder });
      const policy = always(resolveText('chain:3', drafter));
      const { tokenIds } = await decodePlain(target, request);
      const drafted = await decodeSpeculative(target, drafter, { ...request, policy });
      answers.push({ tokenIds, drafted: drafted.tokenIds, passes: drafted.targetPasses });
      expect({ runtime: runtime.name, hasCache: existsSync(cacheFolder) }).toEqual({
        runtime: runtime.name,
        hasCache: runtime === onnx,
      });
    }
    expect(answers[1]).toEqual(answers[0]);
  });
});
