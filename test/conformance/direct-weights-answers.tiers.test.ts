/** Models on a device that reads weights from a checkpoint's own files, emulated here, against ONNX Runtime. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { WritableDType, WritableTensors } from '../support/checkpoint/encode-values.js';
import { makeTemporaryFolder } from '../support/checkpoint/temporary-folder.js';
import { decodePlain } from '../../src/decode/generate.js';
import { always } from '../../src/decode/policies/policy-chooser.js';
import { decodeSpeculative } from '../../src/decode/generate.js';
import { loadDrafter } from '../../src/draft/systems.js';
import { loadModel } from '../../src/model/causal-model.js';
import { createCudaRuntime } from '../../src/runtime/cuda/cuda-runtime.js';
import { createOnnxRuntime } from '../../src/runtime/onnx/onnx-runtime.js';
import type { Runtime } from '../../src/runtime/program.js';
import { createEmulatedDevice } from '../support/emulated-device.js';
import { describeEmulated } from '../support/emulated-suite.js';
import { casesOfTier } from '../support/tier.js';
import { decoderTensors, llamaConfig, tiny, writeCheckpoint } from '../support/tiny-checkpoints.js';
import { drafterVariants } from '../support/tiny-drafters.js';
import { randomTokens, resolveText } from '../support/tiny-pair.js';

const temporary = makeTemporaryFolder();
afterAll(temporary.remove);

describeEmulated('a checkpoint on CUDA', () => {
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

  const cases: readonly (readonly [WritableDType, string, string])[] = [
    ['F32', 'model.safetensors', 'hydra'],
    ['BF16', 'model.safetensors', 'eagle3'],
    ['F16', 'model.safetensors', 'medusa'],
    ['BF16', 'pytorch_model.bin', 'eagle'],
  ];
  const title = 'stored as %s in %s answers with %s as on ONNX Runtime, without a cache';
  it.each(casesOfTier(cases, ([, , kind]) => kind === 'eagle3'))(title, async (dtype, file, kind) => {
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
