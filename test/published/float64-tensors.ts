/**
 * Vectors in double precision and plain loops: the ground on which the reference of this folder stands. Nothing of the
 * library's graphs, models or drafters is used here, so that a mistake of theirs cannot be repeated by its judge.
 */
import type { WritableTensor, WritableTensors } from '../support/checkpoint/encode-values.js';

export type Vector = Float64Array;

/** Tensors by the names they have in a file. */
export class Float64Weights {
  private readonly read = new Map<string, Vector>();

  constructor(private readonly tensors: WritableTensors) {}

  has(name: string): boolean {
    return this.tensors[name] !== undefined;
  }

  shape(name: string): readonly number[] {
    return this.tensor(name).shape;
  }

  vector(name: string): Vector {
    let values = this.read.get(name);
    if (values === undefined) {
      values = Float64Array.from(this.tensor(name).values);
      this.read.set(name, values);
    }
    return values;
  }

  row(name: string, index: number): Vector {
    const [rows, width] = this.shape(name) as [number, number];
    if (index < 0 || index >= rows) throw new Error(`${name} has no row ${index}.`);
    return this.vector(name).subarray(index * width, (index + 1) * width);
  }

  /** W x + b, the bias where the file has one. */
  linear(name: string, x: Vector): Vector {
    const [outputs, inputs] = this.shape(`${name}.weight`) as [number, number];
    if (inputs !== x.length) throw new Error(`${name} reads ${inputs} values, not ${x.length}.`);
    const matrix = this.vector(`${name}.weight`);
    const bias = this.has(`${name}.bias`) ? this.vector(`${name}.bias`) : undefined;
    const y = new Float64Array(outputs);
    for (let output = 0; output < outputs; output++) {
      let sum = bias?.[output] ?? 0;
      for (let input = 0; input < inputs; input++) sum += matrix[output * inputs + input]! * x[input]!;
      y[output] = sum;
    }
    return y;
  }

  /** Root mean square norm over the whole vector. */
  norm(name: string, x: Vector, epsilon: number): Vector {
    const weight = this.vector(`${name}.weight`);
    if (weight.length !== x.length) throw new Error(`${name} has ${weight.length} values, not ${x.length}.`);
    let squares = 0;
    for (const value of x) squares += value * value;
    const scale = 1 / Math.sqrt(squares / x.length + epsilon);
    return x.map((value, index) => value * scale * weight[index]!);
  }

  private tensor(name: string): WritableTensor {
    const tensor = this.tensors[name];
    if (tensor === undefined) throw new Error(`The reference lacks ${name}.`);
    return tensor;
  }
}

export function addVectors(left: Vector, right: Vector): Vector {
  return left.map((value, index) => value + right[index]!);
}

export function scaleVector(x: Vector, factor: number): Vector {
  return x.map((value) => factor * value);
}

export function joinVectors(...parts: readonly Vector[]): Vector {
  const joined = new Float64Array(parts.reduce((sum, part) => sum + part.length, 0));
  let place = 0;
  for (const part of parts) {
    joined.set(part, place);
    place += part.length;
  }
  return joined;
}

export function silu(x: Vector): Vector {
  return x.map((value) => value / (1 + Math.exp(-value)));
}

export function logSoftmax(logits: Vector): Vector {
  let largest = -Infinity;
  for (const logit of logits) largest = Math.max(largest, logit);
  let total = 0;
  for (const logit of logits) total += Math.exp(logit - largest);
  const logTotal = largest + Math.log(total);
  return logits.map((logit) => logit - logTotal);
}
