/** What a model takes of a GPU's memory, from its configuration alone. */
import type { ComputeType } from '../runtime/device-choice.js';
import type { ModelConfiguration } from './configuration.js';
import { layerRecipes } from './weights.js';

export interface GpuMemory {
  readonly weightBytes: number;
  /** Keys and values of one token, which are kept in float32 whatever products are computed in. */
  readonly bytesPerToken: number;
}

const floatBytes = 4;
const typeBytes = { float32: floatBytes, bfloat16: 2, float16: 2 } as const satisfies Record<
  ComputeType,
  number
>;

/** cuBLASLt's workspace, and what a pass computes on the way: of the usual prompts, not of the longest. */
export const passBytes = 2 ** 29;

/**
 * Matrices lie there in the type of the products that read them; vectors, and the table of embeddings, which is looked
 * up, in float32. Embeddings that are the output's matrix too lie there as both.
 */
export function estimateGpuMemory(configuration: ModelConfiguration, dtype: ComputeType): GpuMemory {
  const { vocabularySize, hiddenSize, layerCount, keyValueHeadCount, headSize, tiedEmbeddings } =
    configuration;
  const layerBytes = layerRecipes('', '', configuration).reduce(
    (sum, { shape }) => sum + weightBytesOf(shape, dtype),
    0,
  );
  const table = vocabularySize * hiddenSize;
  const outputBytes = tiedEmbeddings && dtype === 'float32' ? 0 : typeBytes[dtype] * table;
  return {
    weightBytes: layerCount * layerBytes + floatBytes * (table + hiddenSize) + outputBytes,
    bytesPerToken: floatBytes * 2 * layerCount * keyValueHeadCount * headSize,
  };
}

export function weightBytesOf(shape: readonly number[], dtype: ComputeType): number {
  const count = shape.reduce((product, size) => product * size, 1);
  return count * (shape.length > 1 ? typeBytes[dtype] : floatBytes);
}

/** Tokens of context that there is room for beside the weights; negative where the weights alone are too large. */
export function countFittingTokens({ weightBytes, bytesPerToken }: GpuMemory, freeBytes: number): number {
  return Math.floor((freeBytes - passBytes - weightBytes) / bytesPerToken);
}
