/**
 * onnxruntime-node has no bfloat16 tensors, and its float16 type depends on the Node version. Both cross the border
 * as float32 and are converted inside the program.
 */
import { decodeHalves, encodeHalves, isHalf } from '../../core/half-floats.js';
import { cast } from '../../graph/operations/elementwise.js';
import { input } from '../../graph/operations/leaves.js';
import type { RewriteRule } from '../../graph/simplify.js';
import type { DType } from '../../graph/tensor.js';
import type { NamedTensors, TensorValue } from '../program.js';
import type { SessionResult, SessionValue } from './session.js';

export const carrierOf = (dtype: DType): SessionValue['type'] => (isHalf(dtype) ? 'float32' : dtype);

export const carryInput: RewriteRule = (tensor) =>
  tensor.operation === 'input' && isHalf(tensor.dtype)
    ? cast(input(tensor.attributes.name, tensor.shape), tensor.dtype)
    : undefined;

export function carryOutputs(outputs: NamedTensors): NamedTensors {
  return Object.fromEntries(
    Object.entries(outputs).map(([name, tensor]) => [
      name,
      isHalf(tensor.dtype) ? cast(tensor, 'float32') : tensor,
    ]),
  );
}

/** Only half types are given as bits. */
export function toCarrier({ data, shape }: TensorValue, dtype: DType): SessionValue {
  const carried = isHalf(dtype) ? decodeHalves(data as Uint16Array, dtype) : data;
  return { type: carrierOf(dtype), data: carried as SessionValue['data'], dims: shape };
}

export function fromCarrier({ data, dims }: SessionResult, dtype: DType): TensorValue {
  return { data: isHalf(dtype) ? encodeHalves(data, dtype) : data, shape: dims };
}
