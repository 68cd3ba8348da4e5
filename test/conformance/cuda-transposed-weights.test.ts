/** Matrices of weights that lie on a device with their axes exchanged: how they get there, and who reads them so. */
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { createDirectWeights } from '../../src/checkpoint/direct-weights.js';
import { openCheckpoint } from '../../src/checkpoint/open-checkpoint.js';
import { mixedRecipes, mixedTensors } from '../support/checkpoint/mixed-recipes.js';
import { makeTemporaryFolder } from '../support/checkpoint/temporary-folder.js';
import { writeSafetensors } from '../support/checkpoint/write-safetensors.js';
import { resolveRecipes } from '../../src/checkpoint/weight-recipe.js';
import { gradient } from '../../src/graph/gradient.js';
import { matmul } from '../../src/graph/operations/contraction.js';
import { add, multiply } from '../../src/graph/operations/elementwise.js';
import { input, weight, type Tensor, type TensorOf } from '../../src/graph/tensor.js';
import { sum } from '../../src/graph/operations/reductions.js';
import { reshape, transpose } from '../../src/graph/operations/shaping.js';
import { createCudaRuntime } from '../../src/runtime/cuda/cuda-runtime.js';
import { DeviceMemory } from '../../src/runtime/cuda/driver/device-memory.js';
import { DeviceWeights } from '../../src/runtime/cuda/programs/device-weights.js';
import { createInterpreter } from '../oracle/interpreter.js';
import { floatsOf, type NamedTensors } from '../../src/runtime/program.js';
import type { MemoryWeights, WeightStore } from '../../src/runtime/weights.js';
import { createEmulatedDevice, findCompiler } from '../support/emulated-device.js';
import { describeEmulated } from '../support/emulated-suite.js';
import { drawValues } from './runtime-cases.js';
import { expectClose } from './runtime-comparison.js';

const temporary = makeTemporaryFolder();
afterAll(temporary.remove);

describeEmulated('turned weights', (bench) => {
  const matrices = mixedRecipes.filter(({ shape }) => shape.length === 2);

  async function readTurned(weights: DeviceWeights, store: WeightStore, tensor: Tensor) {
    const [rows, columns] = tensor.shape as readonly [number, number];
    const found = new Float32Array(rows * columns);
    const address = await weights.find([store], tensor as TensorOf<'weight'>, 'float32', true);
    await bench.device.download(address, found);
    return found;
  }

  it('arrive from a checkpoint, whatever their parts are', async () => {
    writeSafetensors(join(temporary.path, 'model.safetensors'), mixedTensors);
    const recipes = resolveRecipes(await openCheckpoint(temporary.path), matrices);
    const plain = Object.fromEntries(matrices.map(({ name, shape }) => [name, weight(name, shape)]));
    const turned = Object.fromEntries(Object.entries(plain).map(([name, w]) => [name, transpose(w, [1, 0])]));
    const whole = await createDirectWeights(recipes);
    const expected = await (await createInterpreter().compile(turned, [whole])).run({});
    for (const store of [whole, await createDirectWeights(recipes, 30)]) {
      const weights = new DeviceWeights(new DeviceMemory(bench.device));
      for (const [name, tensor] of Object.entries(plain)) {
        const found = await readTurned(weights, store, tensor);
        expect({ name, found }).toEqual({ name, found: floatsOf(expected, name) });
      }
      await weights.dispose();
    }
  });

  it('arrive from memory in pieces of whole rows', async () => {
    const [rows, columns] = [3, 1_000_003];
    const data = Float32Array.from({ length: rows * columns }, (_, index) => index);
    const store: MemoryWeights = {
      kind: 'memory',
      tensors: new Map([['w', { shape: [rows, columns], data }]]),
    };
    const expected = data.map((_, at) => (at % rows) * columns + Math.floor(at / rows));
    const weights = new DeviceWeights(new DeviceMemory(bench.device));
    const found = await readTurned(weights, store, weight('w', [rows, columns]));
    expect(found.every((value, at) => value === expected[at])).toBe(true);
    await weights.dispose();
  });
});

describe.skipIf(findCompiler() === undefined)('programs that read weights both ways', () => {
  const [inner, columns] = [24, 40];
  const data = Float32Array.from({ length: inner * columns }, (_, index) => Math.sin(index));
  const weights: MemoryWeights = {
    kind: 'memory',
    tensors: new Map([['w', { shape: [inner, columns], data }]]),
  };
  const x = input('x', [6, inner]);
  const w = weight('w', [inner, columns]);
  const y = matmul(x, w);
  const [slope] = gradient(sum(multiply(y, y), [0, 1]), [x]);

  it.each<[string, NamedTensors]>([
    ['a product', { y }],
    ['a product and its gradient', { y, slope: slope! }],
    ['the product of the transpose alone', { z: matmul(input('g', [6, columns]), transpose(w, [1, 0])) }],
    ['a product and elements', { y: add(y, sum(w, [0, 1])) }],
    ['a product of a reshaped matrix', { y: matmul(input('x', [6, 12]), reshape(w, [12, 80])) }],
    ['a product and the matrix itself', { y, w }],
  ])('%s', async (_, outputs) => {
    const runtime = createCudaRuntime(createEmulatedDevice());
    const program = await runtime.compile(outputs, [weights]);
    const inputs = drawValues(outputs, {}, {}, 'turned');
    const expected = await (await createInterpreter().compile(outputs, [weights])).run(inputs);
    expectClose(await program.run(inputs), expected, { relative: 1e-4, absolute: 1e-4 });
    await runtime.dispose();
  });

  it('have one matrix in common, with gradients and without', async () => {
    const device = createEmulatedDevice();
    const uploads: number[] = [];
    const runtime = createCudaRuntime({
      ...device,
      upload: (to, values) => {
        uploads.push(values.byteLength);
        device.upload(to, values);
      },
    });
    await runtime.compile({ y }, [weights], { packed: true });
    await runtime.compile({ slope: slope! }, [weights]);
    expect(uploads.filter((bytes) => bytes === data.byteLength)).toHaveLength(1);
    await runtime.dispose();
  });
});
