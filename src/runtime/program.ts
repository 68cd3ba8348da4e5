/**
 * The seam between graphs and machines. A runtime compiles named outputs into a program; a program maps named inputs
 * to named outputs and keeps no state between runs. Input arrays are read during the run and belong to the caller;
 * output arrays are fresh and belong to the caller too.
 */
import { MistletoeError } from '../core/errors.js';
import type { DimensionBindings, Shape } from '../graph/dimension.js';
import { evaluateDimension, formatShape } from '../graph/dimension.js';
import type { DType, Tensor, TensorOf } from '../graph/tensor.js';
import { sortTopologically } from '../graph/tensor.js';
import type { WeightStore } from './weights.js';

export interface TensorValue {
  readonly shape: readonly number[];
  readonly data: Float32Array | Int32Array | Uint8Array; // float32, int32, bool
}

export type NamedTensors = Readonly<Record<string, Tensor>>;
export type NamedValues = Readonly<Record<string, TensorValue>>;

export interface Program {
  readonly inputs: readonly InputDescription[];
  run(inputs: NamedValues): Promise<NamedValues>;
  dispose(): Promise<void>;
}

export interface InputDescription {
  readonly name: string;
  readonly shape: Shape;
  readonly dtype: DType;
}

export interface CompileOptions {
  /** The program runs often on few rows (decoding): a runtime may keep weights in an order that is faster for that. */
  readonly packed?: boolean;
}

export interface Runtime {
  readonly name: string;
  compile(
    outputs: NamedTensors,
    weights?: readonly WeightStore[],
    options?: CompileOptions,
  ): Promise<Program>;
  dispose(): Promise<void>;
}

export function float32(data: Float32Array, shape: readonly number[]): TensorValue {
  return { data, shape };
}

export function int32(
  data: Int32Array | readonly number[],
  shape: readonly number[] = [data.length],
): TensorValue {
  return { data: data instanceof Int32Array ? data : Int32Array.from(data), shape };
}

/** The float32 output of that name; asking for another is a mistake in the caller. */
export function floatsOf(values: NamedValues, name: string): Float32Array {
  const data = values[name]?.data;
  if (data instanceof Float32Array) return data;
  throw new MistletoeError(
    'runtime',
    `The program has no float32 output "${name}"; it has ${Object.keys(values).join(', ')}.`,
  );
}

export function integersOf(values: NamedValues, name: string): Int32Array {
  const data = values[name]?.data;
  if (data instanceof Int32Array) return data;
  throw new MistletoeError(
    'runtime',
    `The program has no int32 output "${name}"; it has ${Object.keys(values).join(', ')}.`,
  );
}

/** The inputs that a graph reads, each name once. */
export function listInputs(outputs: NamedTensors): readonly InputDescription[] {
  const inputs = new Map<string, InputDescription>();
  for (const tensor of sortTopologically(Object.values(outputs))) {
    if (tensor.operation !== 'input') continue;
    const { name } = tensor.attributes;
    const known = inputs.get(name);
    if (known !== undefined && formatShape(known.shape) !== formatShape(tensor.shape)) {
      throw new MistletoeError(
        'shape',
        `Input "${name}" is declared as ${formatShape(known.shape)} and as ${formatShape(tensor.shape)}.`,
      );
    }
    inputs.set(name, { name, shape: tensor.shape, dtype: tensor.dtype });
  }
  return [...inputs.values()];
}

/** Reads the symbols off the given shapes and checks every input against them. */
export function bindInputs(
  descriptions: readonly InputDescription[],
  values: NamedValues,
): DimensionBindings {
  const bindings = new Map<string, number>();
  const find = ({ name }: InputDescription): TensorValue => {
    const value = values[name];
    if (value === undefined) throw new MistletoeError('runtime', `The program needs an input "${name}".`);
    return value;
  };
  for (const description of descriptions) {
    const value = find(description);
    description.shape.forEach((dimension, axis) => {
      if (typeof dimension === 'number') return;
      const [term] = dimension.terms;
      const isBareSymbol =
        dimension.terms.length === 1 && term!.coefficient === 1 && term!.symbols.length === 1;
      if (isBareSymbol && !bindings.has(dimension.key)) bindings.set(dimension.key, value.shape[axis] ?? -1);
    });
  }
  for (const description of descriptions) {
    const value = find(description);
    const expected = description.shape.map((dimension) => evaluateDimension(dimension, bindings));
    const fits =
      value.shape.length === expected.length && expected.every((size, axis) => size === value.shape[axis]);
    if (!fits) {
      throw new MistletoeError(
        'runtime',
        `Input "${description.name}" has shape [${value.shape.join(', ')}], expected ${formatShape(description.shape)}.`,
      );
    }
  }
  return bindings;
}

export function findWeight(weights: readonly WeightStore[], tensor: TensorOf<'weight'>) {
  const { name } = tensor.attributes;
  for (const store of weights) {
    const entry = store.tensors.get(name);
    if (entry === undefined) continue;
    const expected = formatShape(tensor.shape);
    const found = formatShape(entry.shape);
    if (found !== expected) {
      throw new MistletoeError(
        'shape',
        `Weight "${name}" has shape ${found}, the graph expects ${expected}.`,
      );
    }
    return store;
  }
  throw new MistletoeError(
    'checkpoint',
    `The graph reads a weight "${name}" that none of the given weights hold.`,
  );
}
