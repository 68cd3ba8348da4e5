/** Estimates whether models fit on a GPU before they are opened. */
import { openCheckpoint } from '../checkpoint/open-checkpoint.js';
import { foldersOf, recogniseCheckpoint } from '../draft/systems.js';
import { countPositionBytes } from '../model/cache/cache-pool.js';
import { parseConfiguration, type ModelConfiguration } from '../model/configuration.js';
import { countSparseLayers } from '../model/experts.js';
import { layerRecipes } from '../model/weights.js';
import { cacheTypeOf } from '../runtime/cuda/driver/device.js';
import type { ComputeType, DeviceChoice, GpuHost } from '../runtime/device-choice.js';
import { keepIfRoom, nameDevice, thisMachine } from '../runtime/device-choice.js';

export interface GpuMemory {
  readonly weightBytes: number;
  /** Keys and values. */
  readonly bytesPerToken: number;
}

const floatBytes = 4;
const typeBytes = { float32: floatBytes, bfloat16: 2, float16: 2 } as const satisfies Record<
  ComputeType,
  number
>;

/** cuBLASLt's workspace and intermediate results for typical prompts. */
export const passBytes = 2 ** 29;

/**
 * Matrices and the embedding table have the compute type; vectors are float32.
 */
export function estimateGpuMemory(configuration: ModelConfiguration, dtype: ComputeType): GpuMemory {
  const { vocabularySize, hiddenSize, layerCount, tiedEmbeddings } = configuration;
  const sparse = countSparseLayers(configuration);
  const bytesOf = (experts: ModelConfiguration['experts']): number =>
    layerRecipes('', '', configuration, { experts }).reduce(
      (sum, { shape }) => sum + weightBytesOf(shape, dtype),
      0,
    );
  const layerBytes = (layerCount - sparse) * bytesOf(undefined) + sparse * bytesOf(configuration.experts);
  const table = vocabularySize * hiddenSize;
  const tables = tiedEmbeddings ? 1 : 2;
  return {
    weightBytes: layerBytes + tables * typeBytes[dtype] * table + floatBytes * hiddenSize,
    bytesPerToken: countPositionBytes({ ...configuration, cacheType: cacheTypeOf(dtype) }),
  };
}

function weightBytesOf(shape: readonly number[], dtype: ComputeType): number {
  const count = shape.reduce((product, size) => product * size, 1);
  return count * (shape.length > 1 ? typeBytes[dtype] : floatBytes);
}

/** Tokens of context that fit next to the weights; negative if the weights do not fit. */
export function countFittingTokens({ weightBytes, bytesPerToken }: GpuMemory, freeBytes: number): number {
  return Math.floor((freeBytes - passBytes - weightBytes) / bytesPerToken);
}

/** Room required at the start; the lengths of prompt and answer are not known yet. */
export const expectedTokens = 4096;

/** Systems without weights take nothing. */
export async function countGpuBytes(sources: readonly string[], dtype: ComputeType): Promise<number> {
  let total = passBytes;
  const counted = new Set<string>();
  for (const folder of sources.flatMap(foldersOf)) {
    total += await countFolder(folder, dtype, counted.has(folder));
    counted.add(folder);
  }
  return total;
}

/** Reports the device unless it is the CPU of a machine without GPUs. */
export async function settleDevice(
  choice: DeviceChoice,
  folders: readonly string[],
  onNotice: (message: string) => void = () => undefined,
  host: GpuHost = thisMachine,
): Promise<DeviceChoice> {
  const settled = await keepIfRoom(choice, (dtype) => countGpuBytes(folders, dtype), host);
  if (settled.kind === 'cuda') onNotice(`Runs on ${nameDevice(settled)}.`);
  else if (settled.reason !== undefined) onNotice(settled.reason);
  return settled;
}

/** `isCounted`: the target is in the same folder, and only what the drafter adds counts. */
async function countFolder(folder: string, dtype: ComputeType, isCounted: boolean): Promise<number> {
  try {
    const checkpoint = await openCheckpoint(folder);
    const { kind, system } = recogniseCheckpoint(checkpoint);
    if (isCounted && system !== undefined) {
      const { recipes } = system.describe(checkpoint, { refuse: () => undefined });
      return recipes.reduce((sum, { shape }) => sum + weightBytesOf(shape, dtype), 0);
    }
    if (kind === 'decoder') {
      const configuration = parseConfiguration(checkpoint.config, folder);
      const { weightBytes, bytesPerToken } = estimateGpuMemory(configuration, dtype);
      return weightBytes + bytesPerToken * Math.min(expectedTokens, configuration.contextLength);
    }
    return [...checkpoint.tensors.values()].reduce((sum, { shape }) => sum + weightBytesOf(shape, dtype), 0);
  } catch {
    return 0; // what is wrong with it is said by whoever opens it
  }
}
