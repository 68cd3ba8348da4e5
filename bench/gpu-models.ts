/**
 * Random models in the shapes that people serve, for measurements on a GPU: the target in memory, its EAGLE-3 head in a
 * folder. `tiny` is for trying a benchmark where there is no GPU.
 */
import { closeSync, mkdirSync, openSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import type { AuditPrompt } from '../src/audit/arms/audit-prompt.js';
import type { Random } from '../src/core/random.js';
import type { Target } from '../src/decode/target.js';
import { matmul } from '../src/graph/operations/contraction.js';
import { multiply } from '../src/graph/operations/elementwise.js';
import { input, weight } from '../src/graph/tensor.js';
import { sum } from '../src/graph/operations/reductions.js';
import { CausalModel } from '../src/model/causal-model.js';
import { type ModelConfiguration, parseConfiguration } from '../src/model/configuration.js';
import { decoderRecipes } from '../src/model/weights.js';
import { createCudaRuntime } from '../src/runtime/cuda/cuda-runtime.js';
import { CudaDevice } from '../src/runtime/cuda/driver/cuda-device.js';
import type { Device } from '../src/runtime/cuda/driver/device.js';
import { findDevices } from '../src/runtime/cuda/driver/find-devices.js';
import { createOnnxRuntime } from '../src/runtime/onnx/onnx-runtime.js';
import { type Runtime, float32 } from '../src/runtime/program.js';
import type { MemoryWeights, WeightValues } from '../src/runtime/weights.js';
import { time } from './stopwatch.js';

export interface Shape {
  readonly hidden_size: number;
  readonly intermediate_size: number;
  readonly num_hidden_layers: number;
  readonly num_attention_heads: number;
  readonly num_key_value_heads: number;
  readonly vocab_size: number;
}

export const shapes = {
  '1B': { ...shape(2048, 5632, 22, 32, 32_000), num_key_value_heads: 4 }, // TinyLlama's
  '7B': shape(4096, 11_008, 32, 32, 32_000),
  '13B': shape(5120, 13_824, 40, 40, 32_000),
  tiny: shape(64, 160, 4, 4, 512),
} as const;
export type ShapeName = keyof typeof shapes;

function shape(hidden: number, inner: number, layers: number, heads: number, vocabulary: number): Shape {
  return {
    hidden_size: hidden,
    intermediate_size: inner,
    num_hidden_layers: layers,
    num_attention_heads: heads,
    num_key_value_heads: heads,
    vocab_size: vocabulary,
  };
}

function configOf(sizes: Shape): Readonly<Record<string, unknown>> {
  return {
    ...{ architectures: ['LlamaForCausalLM'], model_type: 'llama', hidden_act: 'silu', ...sizes },
    ...{ max_position_embeddings: 4096, rms_norm_eps: 1e-5, rope_theta: 10_000, tie_word_embeddings: false },
  };
}

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

/** GFLOP/s of one large product of two weights, in the type that the runtime multiplies in. */
export async function measureProduct(runtime: Runtime): Promise<number> {
  const size = runtime.name === 'onnx' ? 1024 : 8192;
  const weights = drawWeights(new Map(['left', 'right'].map((name) => [name, [size, size]])));
  // The scale is an input, so that nothing can be computed ahead of the run.
  const left = multiply(weight('left', [size, size]), input('scale', []));
  const program = await runtime.compile({ total: sum(matmul(left, weight('right', [size, size])), [0, 1]) }, [
    weights,
  ]);
  const inputs = { scale: float32(Float32Array.of(1), []) };
  const { bestMs } = await time(() => program.run(inputs), 12);
  await program.dispose();
  return (2 * size ** 3) / bestMs / 1e6;
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
      ...{ prefillMs: 0, decodeMs: 0, tokensPerSecond: 0 },
    },
  };
}

const countElements = (sizes: readonly number[]): number =>
  sizes.reduce((product, size) => product * size, 1);

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

type NamedShapes = readonly (readonly [name: string, shape: readonly number[]])[];

const elementBytes = 2;
const one = 0x3f80;

/** A head with the target's whole vocabulary and three taps. */
export function writeRandomEagle3(folder: string, shape: Shape): string {
  const { hidden_size: hidden, vocab_size: vocabulary } = shape;
  const tensors: NamedShapes = [
    ['fc.weight', [hidden, 3 * hidden]],
    ...layerTensors('midlayer', shape, 2 * hidden),
    ['midlayer.hidden_norm.weight', [hidden]],
    ['norm.weight', [hidden]],
    ['lm_head.weight', [vocabulary, hidden]],
  ];
  mkdirSync(folder, { recursive: true });
  writeTensors(join(folder, 'model.safetensors'), tensors);
  const config = { ...configOf({ ...shape, num_hidden_layers: 1 }), draft_vocab_size: vocabulary };
  writeFileSync(join(folder, 'config.json'), JSON.stringify(config));
  return folder;
}

function layerTensors(name: string, shape: Shape, inputSize = shape.hidden_size): NamedShapes {
  const { hidden_size: hidden, intermediate_size: inner } = shape;
  return [
    [`${name}.input_layernorm.weight`, [hidden]],
    ...['q_proj', 'k_proj', 'v_proj'].map(
      (part) => [`${name}.self_attn.${part}.weight`, [hidden, inputSize]] as const,
    ),
    [`${name}.self_attn.o_proj.weight`, [hidden, hidden]],
    [`${name}.post_attention_layernorm.weight`, [hidden]],
    [`${name}.mlp.gate_proj.weight`, [inner, hidden]],
    [`${name}.mlp.up_proj.weight`, [inner, hidden]],
    [`${name}.mlp.down_proj.weight`, [hidden, inner]],
  ];
}

function writeTensors(path: string, tensors: NamedShapes): void {
  const header: Record<string, unknown> = {};
  let offset = 0;
  for (const [name, shape] of tensors) {
    const end = offset + elementBytes * countElements(shape);
    header[name] = { dtype: 'BF16', shape, data_offsets: [offset, end] };
    offset = end;
  }
  const json = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(json.length));
  const file = openSync(path, 'w');
  try {
    writeSync(file, length);
    writeSync(file, json);
    for (const [, shape] of tensors) {
      const count = countElements(shape);
      if (shape.length === 1) writeSync(file, new Uint16Array(count).fill(one));
      else for (let rest = count; rest > 0;) rest -= writeSync(file, nextValues(rest)) / elementBytes;
    }
  } finally {
    closeSync(file);
  }
}

/** Small values of both signs, used over and over; their number is a prime, so that no two rows of a matrix are alike. */
const block = drawValues(16_777_213);
let used = 0;

function nextValues(most: number): Uint16Array {
  const values = block.subarray(used, used + most);
  used = (used + values.length) % block.length;
  return values;
}

/** Exponents around 2^-6, the rest of the bits by a linear congruence. */
function drawValues(count: number): Uint16Array {
  const values = new Uint16Array(count);
  let state = 1;
  for (let index = 0; index < count; index++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    values[index] = ((state >>> 16) & 0x80ff) | 0x3c00;
  }
  return values;
}
