/**
 * The seam between graphs and machines. A runtime compiles named outputs into a program; a program maps named inputs
 * to named outputs and keeps no state between runs. Input arrays are read during the run and belong to the caller;
 * output arrays are fresh and belong to the caller too.
 */
import { MistletoeError } from '../core/errors.js';
import { isHalf } from '../core/half-floats.js';
import type { DimensionBindings, Shape } from '../graph/dimension.js';
import { bareSymbol, evaluateDimension, formatShape } from '../graph/dimension.js';
import type { DType, Tensor, TensorOf } from '../graph/tensor.js';
import { sortTopologically } from '../graph/tensor.js';
import type { WeightStore } from './weights.js';

export interface TensorValue {
  readonly shape: readonly number[];
  /** float32, int32, bool; the bits of bfloat16 and float16 */
  readonly data: Float32Array | Int32Array | Uint8Array | Uint16Array;
}

export type NamedTensors = Readonly<Record<string, Tensor>>;
export type NamedValues = Readonly<Record<string, TensorValue>>;

export interface Program {
  readonly inputs: readonly InputDescription[];
  /** Computes the named outputs, or all of them. */
  run(inputs: NamedValues, outputs?: readonly string[]): Promise<NamedValues>;
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
    const declared = { name, shape: tensor.shape, dtype: tensor.dtype };
    if (known !== undefined && describe(known) !== describe(declared)) {
      throw new MistletoeError(
        'shape',
        `Input "${name}" is declared as ${describe(known)} and as ${describe(declared)}.`,
      );
    }
    inputs.set(name, declared);
  }
  return [...inputs.values()];
}

const describe = ({ dtype, shape }: InputDescription): string => `${dtype} ${formatShape(shape)}`;

/** A value of any number type, as far as its shape matters. */
export interface ShapedValue {
  readonly shape: readonly number[];
  readonly data: { readonly length: number };
}

/** Reads the symbols off the given shapes and checks every input against them. */
export function bindInputs(
  descriptions: readonly InputDescription[],
  values: Readonly<Record<string, ShapedValue>>,
): DimensionBindings {
  const bindings = new Map<string, number>();
  for (const { name, shape } of descriptions) {
    const value = values[name];
    if (value === undefined) throw new MistletoeError('runtime', `The program needs an input "${name}".`);
    for (let axis = 0; axis < shape.length; axis++) {
      const symbolName = bareSymbol(shape[axis]!);
      const size = value.shape[axis];
      if (symbolName !== undefined && size !== undefined && !bindings.has(symbolName))
        bindings.set(symbolName, size);
    }
  }
  for (const description of descriptions) checkInput(description, values[description.name]!, bindings);
  return bindings;
}

/** Runs for every input of every step, so sentences are made only when one is needed. */
function checkInput(description: InputDescription, value: ShapedValue, bindings: DimensionBindings): void {
  const { shape } = description;
  let fits = value.shape.length === shape.length;
  let count = 1;
  for (let axis = 0; fits && axis < shape.length; axis++) {
    const dimension = shape[axis]!;
    const size = value.shape[axis]!;
    fits = (typeof dimension === 'number' ? dimension : evaluateDimension(dimension, bindings)) === size;
    count *= size;
  }
  if (fits && value.data.length === count) return;
  const seen = `Input "${description.name}" has shape ${formatShape(value.shape)}`;
  if (!fits) {
    const known = [...bindings].map(([name, size]) => `${name} = ${size}`).join(', ');
    const where = known === '' ? '' : ` with ${known}`;
    throw new MistletoeError('runtime', `${seen}, expected ${formatShape(shape)}${where}.`);
  }
  throw new MistletoeError('runtime', `${seen} and ${value.data.length} values, expected ${count} values.`);
}

/** Refuses values whose arrays are of another type than their inputs. */
export function checkTypes(descriptions: readonly InputDescription[], values: NamedValues): void {
  for (const { name, dtype } of descriptions) {
    const given = typeOf(values[name]?.data);
    if (given !== (isHalf(dtype) ? '16-bit' : dtype)) {
      throw new MistletoeError('runtime', `Input "${name}" holds ${given} values, expected ${dtype}.`);
    }
  }
}

function typeOf(data: TensorValue['data'] | undefined): string {
  if (data instanceof Float32Array) return 'float32';
  if (data instanceof Int32Array) return 'int32';
  return data instanceof Uint16Array ? '16-bit' : 'bool';
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
    const { dtype = 'float32' } = entry;
    if (dtype !== tensor.dtype) {
      throw new MistletoeError(
        'checkpoint',
        `Weight "${name}" is stored as ${dtype}, the graph expects ${tensor.dtype}.`,
      );
    }
    const held = 'data' in entry ? entry.data.byteLength : entry.sizeBytes;
    const needed = entry.shape.reduce((product, size) => product * size, isHalf(dtype) ? 2 : 4);
    if (held !== needed) {
      throw new MistletoeError(
        'checkpoint',
        `Weight "${name}" has ${held} bytes, its shape ${found} needs ${needed}.`,
      );
    }
    return store;
  }
  throw new MistletoeError(
    'checkpoint',
    `The graph reads a weight "${name}" that none of the given weights hold.`,
  );
}
