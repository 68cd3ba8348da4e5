/**
 * Blocks that are one. The authors of Medusa and Hydra repeat one module where a head has several blocks, and their files
 * hold it under several names; their code runs the last one everywhere. Blocks that are equal when training begins
 * therefore learn as one and stay equal.
 */
import type { ParameterValues } from './parameter-buffers.js';

/** medusa.HEAD.LAYER.weight and hydra.HEAD.blockN.weight, without the number. */
const repeated = [/^(medusa\.\d+)\.\d+(\.weight|\.bias)$/, /^(hydra\.\d+\.block)\d+(\.weight|\.bias)$/];

/** [name] the name under which it learns; its own unless it is tied to an earlier one. */
export function tieWeights(values: ReadonlyMap<string, ParameterValues>): ReadonlyMap<string, string> {
  const first = new Map<string, string>(); // [name without number]
  const ties = new Map<string, string>();
  for (const [name, { data }] of values) {
    const family = repeated.map((pattern) => pattern.exec(name)).find((match) => match !== null);
    const key = family === undefined ? undefined : `${family[1]!} ${family[2]!}`;
    const earlier = key === undefined ? undefined : first.get(key);
    const isTied = earlier !== undefined && areEqual(values.get(earlier)!.data, data);
    ties.set(name, isTied ? earlier : name);
    if (key !== undefined && earlier === undefined) first.set(key, name);
  }
  return ties;
}

const areEqual = (left: Float32Array, right: Float32Array): boolean =>
  left.length === right.length && left.every((value, index) => value === right[index]);
