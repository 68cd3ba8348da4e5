/** Weights that go from a checkpoint's own files to a device, which converts and places them: emulated here. */
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { createDirectWeights } from '../../src/checkpoint/direct-weights.js';
import { openCheckpoint } from '../../src/checkpoint/open-checkpoint.js';
import { mixedRecipes, mixedTensors } from '../support/checkpoint/mixed-recipes.js';
import { makeTemporaryFolder } from '../support/checkpoint/temporary-folder.js';
import { writeSafetensors } from '../support/checkpoint/write-safetensors.js';
import { resolveRecipes } from '../../src/checkpoint/weight-recipe.js';
import { decodeHalves, encodeHalves, isHalf } from '../../src/core/half-floats.js';
import { weight, type TensorOf } from '../../src/graph/tensor.js';
import { DeviceMemory } from '../../src/runtime/cuda/driver/device-memory.js';
import { DeviceWeights } from '../../src/runtime/cuda/programs/device-weights.js';
import { createInterpreter } from '../oracle/interpreter.js';
import { floatsOf } from '../../src/runtime/program.js';
import type { WeightStore } from '../../src/runtime/weights.js';
import { describeEmulated } from '../support/emulated-suite.js';

const temporary = makeTemporaryFolder();
afterAll(temporary.remove);

describeEmulated('weights of a checkpoint on a device', (bench) => {
  it.each(['float32', 'bfloat16', 'float16'] as const)('arrive as %s', async (type) => {
    writeSafetensors(join(temporary.path, 'model.safetensors'), mixedTensors);
    const recipes = resolveRecipes(await openCheckpoint(temporary.path), mixedRecipes);
    const outputs = Object.fromEntries(mixedRecipes.map(({ name, shape }) => [name, weight(name, shape)]));
    const whole = await createDirectWeights(recipes);
    const expected = await (await createInterpreter().compile(outputs, [whole])).run({});
    for (const store of [whole, await createDirectWeights(recipes, 30)]) {
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

  it.each(['bfloat16', 'float16'] as const)('arrive from memory in %s as well', async (dtype) => {
    const values = Float32Array.of(1.5, -0.1, 3e-6, 70000, -2, 0);
    const data = encodeHalves(values, dtype);
    const store: WeightStore = { kind: 'memory', tensors: new Map([['w', { shape: [2, 3], data, dtype }]]) };
    const weights = new DeviceWeights(new DeviceMemory(bench.device));
    const tensor = weight('w', [2, 3], dtype) as TensorOf<'weight'>;
    const found = new Float32Array(6);
    await bench.device.download(await weights.find([store], tensor, 'float32'), found);
    expect(found).toEqual(decodeHalves(data, dtype));
    await weights.dispose();
  });
});
