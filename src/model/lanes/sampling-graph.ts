/**
 * The sampling distribution (core/sampling.ts) as a graph. Temperature, top-k and top-p are inputs per lane, so one
 * program serves all requests.
 */
import type { SamplingOptions } from '../../core/sampling.js';
import { checkSamplingOptions } from '../../core/sampling.js';
import { keepLikeliest } from '../../graph/operations/drawing.js';
import { divide } from '../../graph/operations/elementwise.js';
import { input } from '../../graph/operations/leaves.js';
import { softmax } from '../../graph/operations/reductions.js';
import { broadcast, reshape } from '../../graph/operations/shaping.js';
import type { Tensor } from '../../graph/tensor.js';
import type { NamedValues } from '../../runtime/program.js';
import { float32, int32 } from '../../runtime/program.js';
import { lanes } from './lane-graph.js';

/** [1, lanes] each. */
export interface SamplingTensors {
  readonly temperature: Tensor;
  readonly topK: Tensor;
  readonly topP: Tensor;
}

export function declareSampling(): SamplingTensors {
  return {
    temperature: input('temperature', [1, lanes]),
    topK: input('topK', [1, lanes], 'int32'),
    topP: input('topP', [1, lanes]),
  };
}

/** [row, lanes, vocabulary] */
export function distributionOf(logits: Tensor, { temperature, topK, topP }: SamplingTensors): Tensor {
  const rows = logits.shape.slice(0, -1);
  const scaled = divide(logits, reshape(temperature, [1, lanes, 1]));
  return softmax(keepLikeliest(scaled, broadcast(topK, rows), broadcast(topP, rows)));
}

export function samplingInputs(sampling: SamplingOptions, vocabularySize: number): NamedValues {
  const { temperature, topK = vocabularySize, topP = 1 } = checkSamplingOptions(sampling);
  return {
    temperature: float32(Float32Array.of(temperature), [1]),
    topK: int32([Math.min(topK, vocabularySize)]),
    topP: float32(Float32Array.of(topP), [1]),
  };
}
