/** The values that programs take and give: declared inputs, checks of given ones, and delivery from host memory. */
import { MistletoeError } from '../core/errors.js';
import { isHalf } from '../core/half-floats.js';
import { bareSymbol, evaluateDimension, formatShape, type DimensionBindings } from '../graph/dimension.js';
import { sortTopologically } from '../graph/tensor.js';
import {
  type Destination,
  floatsOf,
  type InputDescription,
  type MixedValues,
  type NamedTensors,
  type NamedValues,
  resident,
  type ResidentValue,
  type TensorValue,
} from './program.js';
import { givesBackOnce, hostDataOf, HostRows } from './row-buffer.js';

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

type GivenValue = { readonly shape: readonly number[] } & (
  | { readonly data: { readonly length: number } }
  | Pick<ResidentValue, 'buffer'>
);

/** Binds symbols and checks every input. It runs for every step, so messages are built on demand. */
export function bindInputs(
  descriptions: readonly InputDescription[],
  values: Readonly<Record<string, GivenValue>>,
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

function checkInput(
  { name, shape, dtype }: InputDescription,
  value: GivenValue,
  bindings: DimensionBindings,
): void {
  let fits = value.shape.length === shape.length;
  let count = 1;
  for (let axis = 0; fits && axis < shape.length; axis++) {
    const dimension = shape[axis]!;
    const size = value.shape[axis]!;
    fits = (typeof dimension === 'number' ? dimension : evaluateDimension(dimension, bindings)) === size;
    count *= size;
  }
  const given =
    'data' in value
      ? value.data.length
      : value.buffer.rowCount * value.buffer.width * (isHalf(dtype) ? 2 : 1);
  if (fits && given === count) return;
  const seen = `Input "${name}" has shape ${formatShape(value.shape)}`;
  if (fits) throw new MistletoeError('runtime', `${seen} and ${given} values, expected ${count} values.`);
  const known = [...bindings].map(([symbol, size]) => `${symbol} = ${size}`).join(', ');
  const where = known === '' ? '' : ` with ${known}`;
  throw new MistletoeError('runtime', `${seen}, expected ${formatShape(shape)}${where}.`);
}

/** Of host values. */
export function checkTypes(descriptions: readonly InputDescription[], values: MixedValues): void {
  for (const { name, dtype } of descriptions) {
    const value = values[name]!;
    if (!('data' in value)) continue;
    const given = typeOf(value.data);
    if (given !== (isHalf(dtype) ? '16-bit' : dtype))
      throw new MistletoeError('runtime', `Input "${name}" holds ${given} values, expected ${dtype}.`);
  }
}

function typeOf(data: TensorValue['data']): string {
  if (data instanceof Float32Array) return 'float32';
  if (data instanceof Int32Array) return 'int32';
  return data instanceof Uint16Array ? '16-bit' : 'bool';
}

// Buffers and arrays for runtimes in host memory, without copies.
export function toHostValues(values: MixedValues): NamedValues {
  const result: Record<string, TensorValue> = {};
  for (const name in values) {
    const value = values[name]!;
    result[name] = 'data' in value ? value : { data: hostDataOf(value.buffer), shape: value.shape };
  }
  return result;
}

export type Wanted = readonly string[] | Readonly<Record<string, Destination>>;

export const namesOf = (wanted: Wanted): readonly string[] => (isList(wanted) ? wanted : Object.keys(wanted));

/** @param recycle takes back the memory of outputs that stay in the runtime */
export function deliver(
  outputs: NamedValues,
  wanted: Wanted,
  recycle?: (values: Float32Array) => void,
): MixedValues {
  if (isList(wanted)) return outputs;
  const delivered: Record<string, TensorValue | ResidentValue> = {};
  for (const [name, destination] of Object.entries(wanted)) {
    const value = outputs[name]!;
    if (destination === 'host') {
      delivered[name] = value;
      continue;
    }
    const values = floatsOf(outputs, name);
    const giveBack = recycle && givesBackOnce(values, recycle);
    const rows = new HostRows(values, value.shape.at(-1) ?? 1, giveBack);
    if (destination === 'runtime') delivered[name] = resident(rows, value.shape);
    else {
      destination.write(rows.withWidth(destination.width));
      rows.free();
      delivered[name] = resident(destination, value.shape);
    }
  }
  return delivered;
}

const isList = (wanted: Wanted): wanted is readonly string[] => Array.isArray(wanted);
