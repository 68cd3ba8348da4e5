/**
 * The oracle: a simple runtime in double precision that shares nothing with the others. Tests compare every runtime
 * with it and take finite differences.
 */
import { open } from 'node:fs/promises';
import { describeCause, MistletoeError } from '../../src/core/errors.js';
import { decodeHalves, encodeHalves, isHalf } from '../../src/core/half-floats.js';
import type { DType, Tensor, TensorOf } from '../../src/graph/tensor.js';
import { sortTopologically } from '../../src/graph/tensor.js';
import type { WeightStore } from '../../src/runtime/weights.js';
import { findWeight } from '../../src/runtime/weights.js';
import {
  bindInputs,
  checkTypes,
  deliver,
  listInputs,
  toHostValues,
  type Wanted,
} from '../../src/runtime/program-values.js';
import type {
  InputDescription,
  MixedValues,
  NamedTensors,
  NamedValues,
  Program,
  Runtime,
  TensorValue,
} from '../../src/runtime/program.js';
import { allocateHostRows } from '../../src/runtime/row-buffer.js';
import type { DenseValue } from './dense-value.js';
import { resolveDimension, resolveShape } from './dense-value.js';
import { readDirectWeight } from './direct-values.js';
import { runKernel } from './kernels.js';

export type { DenseValue } from './dense-value.js';
export type NamedDenseValues = Readonly<Record<string, DenseValue>>;

export function interpret(
  outputs: NamedTensors,
  inputs: NamedDenseValues,
  weights: NamedDenseValues = {},
): NamedDenseValues {
  const bindings = bindInputs(listInputs(outputs), inputs);
  const values = new Map<Tensor, DenseValue>();
  for (const tensor of sortTopologically(Object.values(outputs))) {
    values.set(tensor, evaluate(tensor));
  }
  return mapRecord(outputs, (tensor) => values.get(tensor)!);

  function evaluate(tensor: Tensor): DenseValue {
    if (tensor.operation === 'input') return inputs[tensor.attributes.name]!;
    if (tensor.operation === 'weight') return requireWeight(weights, tensor);
    return runKernel(
      tensor,
      tensor.inputs.map((input) => values.get(input)!),
      {
        shape: resolveShape(tensor.shape, bindings),
        resolve: (dimension) => resolveDimension(dimension, bindings),
      },
    );
  }
}

function requireWeight(weights: NamedDenseValues, tensor: TensorOf<'weight'>): DenseValue {
  const { name } = tensor.attributes;
  const value = weights[name];
  if (value !== undefined) return value;
  throw new MistletoeError('checkpoint', `The graph reads a weight "${name}" that was not given.`);
}

export function createInterpreter(): Runtime {
  return {
    name: 'interpreter',
    allocate: allocateHostRows,
    async compile(outputs, stores = []): Promise<Program> {
      const inputs = listInputs(outputs);
      const weights = await loadWeights(outputs, stores);
      const run = (values: MixedValues, wanted: Wanted = Object.keys(outputs)): Promise<MixedValues> =>
        new Promise((resolve) => {
          resolve(deliver(runProgram(outputs, inputs, toHostValues(values), weights), wanted));
        });
      return { inputs, run: run as Program['run'], dispose: () => Promise.resolve() };
    },
    dispose: () => Promise.resolve(),
  };
}

function runProgram(
  outputs: NamedTensors,
  inputs: readonly InputDescription[],
  values: NamedValues,
  weights: NamedDenseValues,
): NamedValues {
  bindInputs(inputs, values);
  checkTypes(inputs, values);
  const types = new Map(inputs.map(({ name, dtype }) => [name, dtype]));
  const results = interpret(
    outputs,
    mapRecord(values, (value, name) => widen(value, types.get(name))),
    weights,
  );
  return mapRecord(outputs, ({ dtype }, name) => narrow(results[name]!, dtype));
}

function widen({ shape, data }: TensorValue, dtype: DType | undefined): DenseValue {
  const isBits = data instanceof Uint16Array && dtype !== undefined && isHalf(dtype);
  return { shape, data: Float64Array.from(isBits ? decodeHalves(data, dtype) : data) };
}

function narrow({ shape, data }: DenseValue, dtype: DType): TensorValue {
  if (dtype === 'float32') return { shape, data: Float32Array.from(data) };
  if (isHalf(dtype)) return { shape, data: encodeHalves(data, dtype) };
  return { shape, data: dtype === 'int32' ? Int32Array.from(data) : Uint8Array.from(data) };
}

async function loadWeights(outputs: NamedTensors, stores: readonly WeightStore[]): Promise<NamedDenseValues> {
  const loaded: Record<string, DenseValue> = {};
  for (const tensor of sortTopologically(Object.values(outputs))) {
    if (tensor.operation !== 'weight') continue;
    const { name } = tensor.attributes;
    const store = findWeight(stores, tensor);
    const dtype = storedType(store, name);
    const data = await readWeight(store, name, dtype);
    loaded[name] = widen({ shape: tensor.shape as readonly number[], data }, dtype);
  }
  return loaded;
}

const storedType = (store: WeightStore, name: string): DType =>
  store.kind === 'checkpoint' ? 'float32' : (store.tensors.get(name)!.dtype ?? 'float32');

async function readWeight(store: WeightStore, name: string, dtype: DType): Promise<TensorValue['data']> {
  if (store.kind === 'memory') return store.tensors.get(name)!.data;
  if (store.kind === 'checkpoint') return readDirectWeight(store.tensors.get(name)!);
  const { offsetBytes, sizeBytes } = store.tensors.get(name)!;
  const bytes = new Uint8Array(sizeBytes);
  let found: number;
  try {
    const file = await open(store.path, 'r');
    try {
      found = (await file.read(bytes, 0, sizeBytes, offsetBytes)).bytesRead;
    } finally {
      await file.close();
    }
  } catch (cause) {
    throw new MistletoeError(
      'checkpoint',
      `The weight file "${store.path}" could not be read: ${describeCause(cause)}`,
      { cause },
    );
  }
  if (found !== sizeBytes) {
    throw new MistletoeError(
      'checkpoint',
      `The weight file "${store.path}" ends within "${name}": ${found} bytes of ${sizeBytes} are there.`,
    );
  }
  return isHalf(dtype) ? new Uint16Array(bytes.buffer) : new Float32Array(bytes.buffer);
}

function mapRecord<From, To>(
  record: Readonly<Record<string, From>>,
  convert: (value: From, name: string) => To,
): Readonly<Record<string, To>> {
  return Object.fromEntries(Object.entries(record).map(([name, value]) => [name, convert(value, name)]));
}
