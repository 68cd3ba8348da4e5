import type { Drafter } from '../../draft/drafter.js';
import type { CacheSizes } from '../../model/cache/cache-pool.js';
import type { CausalModel } from '../../model/causal-model.js';
import type { GenerationRequest } from '../plain.js';

/**
 * Bytes of keys and values of prompt and answer, in the target and the drafters. An upper bound: rows shared with
 * other forks of a prefix count for each.
 */
export function sequenceBytes(
  { promptIds, maxNewTokens }: Pick<GenerationRequest, 'promptIds' | 'maxNewTokens'>,
  { configuration }: Pick<CausalModel, 'configuration'>,
  ...drafters: readonly Drafter[]
): number {
  const positions = Math.min(promptIds.length + maxNewTokens, configuration.contextLength);
  const drafting = drafters.flatMap(({ graph }) => graph?.attention?.sizes ?? []);
  return positions * [configuration, ...drafting].reduce((sum, sizes) => sum + bytesPerPosition(sizes), 0);
}

const bytesPerPosition = ({ layerCount, keyValueHeadCount, headSize }: CacheSizes): number =>
  2 * layerCount * keyValueHeadCount * headSize * Float32Array.BYTES_PER_ELEMENT;
