/** Random targets in memory for measurements on a GPU, in the shapes of random-checkpoint.ts. */
import type { AuditPrompt } from '../src/audit/arms/audit-prompt.js';
import type { Random } from '../src/core/random.js';
import type { Target } from '../src/decode/target.js';
import { CausalModel } from '../src/model/causal-model.js';
import { type ModelConfiguration, parseConfiguration } from '../src/model/configuration.js';
import { decoderRecipes } from '../src/model/weights.js';
import { createCudaRuntime } from '../src/runtime/cuda/cuda-runtime.js';
import { CudaDevice } from '../src/runtime/cuda/driver/cuda-device.js';
import type { Device } from '../src/runtime/cuda/driver/device.js';
import { findDevices } from '../src/runtime/cuda/driver/find-devices.js';
import { createOnnxRuntime } from '../src/runtime/onnx/onnx-runtime.js';
import type { Runtime } from '../src/runtime/program.js';
import type { MemoryWeights, WeightValues } from '../src/runtime/weights.js';
import { configOf, countElements, type ShapeName, shapes } from './random-checkpoint.js';

export interface BenchDevice {
  readonly runtime: Runtime;
  /** Undefined where the processor computes. */
  readonly device: Device | undefined;
  readonly name: string;
}

/** The first GPU in bfloat16; for tiny shapes whatever there is. */
export function openBenchDevice(name: ShapeName): BenchDevice {
  const { devices, reason } = findDevices();
  if (devices.length > 0) {
    const device = CudaDevice.open();
    const runtime = createCudaRuntime(device, { productType: 'bfloat16' });
    return { runtime, device, name: device.name };
  }
  if (name !== 'tiny') throw new Error(`There is no GPU: ${reason ?? 'none found'}`);
  return { runtime: createOnnxRuntime({ threads: 2 }), device: undefined, name: 'the CPU' };
}

export function openRandomTarget(name: ShapeName, runtime: Runtime): Target {
  const configuration = parseConfiguration(configOf(shapes[name]), `the ${name} shape`);
  return {
    folder: `random ${name}`,
    model: createRandomModel(name, configuration, runtime),
    get tokenizer(): never {
      throw new Error('Random models have no text.');
    },
    ...{ template: undefined, stopIds: [] },
  };
}

function createRandomModel(name: string, configuration: ModelConfiguration, runtime: Runtime): CausalModel {
  const scope = 'target.';
  const recipes = decoderRecipes(configuration, scope);
  const weights = drawWeights(new Map(recipes.map((recipe) => [recipe.name, recipe.shape])));
  return new CausalModel({ name, configuration, scope, weights, runtime });
}

export async function makeRandomPrompt(
  model: CausalModel,
  lengths: { readonly prompt: number; readonly tail: number; readonly window: number },
  random: Random,
): Promise<AuditPrompt> {
  const { vocabularySize } = model.configuration;
  const draw = (length: number): number[] => Array.from({ length }, () => random.nextInteger(vocabularySize));
  const [beforeIds, afterIds, windowIds] = [draw(lengths.prompt), draw(lengths.tail), draw(lengths.window)];
  const before = [...beforeIds, ...afterIds];
  const tokens = Int32Array.from([...before, ...windowIds.slice(0, -1)]);
  const select = Int32Array.from(windowIds, (_, row) => before.length - 1 + row);
  const { logits } = await model.forward({ tokens, cache: model.createCache(), select, want: ['logits'] });
  return {
    ...{ id: 'bench', category: null, text: '', reference: null, answerPerplexity: 1 },
    ...{ beforeIds, afterIds, windowIds, cleanLogits: logits! },
    rendered: { before: '', after: '', addSpecialTokens: false, isTrimmed: false },
    answer: {
      ...{ promptTokenIds: before, tokenIds: windowIds, origins: [], text: '', finishReason: 'length' },
      ...{ preparationMs: 0, prefillMs: 0, decodeMs: 0, tokensPerSecond: 0 },
    },
  };
}

/** A prime, so that no two rows of a matrix are alike. */
const period = 4_194_301;

/** Each weight is a piece of one list of random numbers: billions of different ones would take minutes to draw. */
function drawWeights(sizes: ReadonlyMap<string, readonly number[]>): MemoryWeights {
  const noise = new Float32Array(Math.max(...[...sizes.values()].map(countElements)));
  for (let at = 0; at < Math.min(period, noise.length); at++) noise[at] = (Math.random() - 0.5) / 16;
  for (let at = period; at < noise.length; at += period)
    noise.set(noise.subarray(0, Math.min(period, noise.length - at)), at);
  const ones = new Float32Array(2 ** 16).fill(1);
  const tensors = new Map<string, WeightValues>(
    [...sizes].map(([name, of]) => [
      name,
      { shape: of, data: (of.length === 1 ? ones : noise).subarray(0, countElements(of)) },
    ]),
  );
  return { kind: 'memory', tensors };
}
