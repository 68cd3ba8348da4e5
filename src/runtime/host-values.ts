/** Buffers and arrays for runtimes in host memory, without copies. */
import type { Destination, MixedValues, NamedValues, ResidentValue, TensorValue } from './program.js';
import { floatsOf, resident } from './program.js';
import { hostDataOf, HostRows } from './row-buffer.js';

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

export function deliver(outputs: NamedValues, wanted: Wanted): MixedValues {
  if (isList(wanted)) return outputs;
  const delivered: Record<string, TensorValue | ResidentValue> = {};
  for (const [name, destination] of Object.entries(wanted)) {
    const value = outputs[name]!;
    if (destination === 'host') {
      delivered[name] = value;
      continue;
    }
    const rows = new HostRows(floatsOf(outputs, name), value.shape.at(-1) ?? 1);
    if (destination === 'runtime') delivered[name] = resident(rows, value.shape);
    else {
      destination.write(rows.withWidth(destination.width));
      delivered[name] = resident(destination, value.shape);
    }
  }
  return delivered;
}

const isList = (wanted: Wanted): wanted is readonly string[] => Array.isArray(wanted);
