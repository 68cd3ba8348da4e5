/** Host values to and from the device, in one piece each way. */
import type { DimensionBindings } from '../../../graph/dimension.js';
import { bindInputs, checkTypes } from '../../program-inputs.js';
import type { InputDescription, MixedValues, TensorValue } from '../../program.js';
import type { RowMemory } from '../driver/device-rows.js';
import { deviceRowsOf } from '../driver/device-rows.js';
import type { RunLayout } from './run-layout.js';
import type { Place } from './step.js';

export function bindValues(
  inputs: readonly InputDescription[],
  values: MixedValues,
  memory: RowMemory,
): DimensionBindings {
  const shaped: Record<string, { shape: readonly number[]; data: { length: number } }> = {};
  const onHost: Record<string, TensorValue> = {};
  for (const [name, value] of Object.entries(values)) {
    if ('data' in value) {
      onHost[name] = value;
      shaped[name] = value;
      continue;
    }
    const { rowCount, width } = deviceRowsOf(value.buffer, memory);
    shaped[name] = { shape: value.shape, data: { length: rowCount * width } };
  }
  const bindings = bindInputs(inputs, shaped);
  checkTypes(
    inputs.filter(({ name }) => name in onHost),
    onHost,
  );
  return bindings;
}

export function viewValues(
  { buffer }: Uint8Array,
  offset: number,
  count: number,
  type: Place['type'],
): TensorValue['data'] {
  if (type === 'float32') return new Float32Array(buffer, offset, count);
  if (type === 'int32') return new Int32Array(buffer, offset, count);
  return type === 'bool' ? new Uint8Array(buffer, offset, count) : new Uint16Array(buffer, offset, count);
}

export function packValues(
  inputs: readonly InputDescription[],
  values: MixedValues,
  { inputOffsets, symbolLists, sentBytes }: RunLayout,
  bindings: DimensionBindings,
): Uint8Array {
  const bytes = new Uint8Array(sentBytes);
  for (const { name } of inputs) {
    const { buffer, byteOffset, byteLength } = (values[name] as TensorValue).data;
    bytes.set(new Uint8Array(buffer, byteOffset, byteLength), inputOffsets.get(name));
  }
  const integers = new Int32Array(bytes.buffer);
  for (const { names, offset } of symbolLists)
    names.forEach((name, index) => (integers[offset / 4 + index] = bindings.get(name) ?? 0));
  return bytes;
}
