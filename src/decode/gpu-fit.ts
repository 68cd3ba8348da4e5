/** Whether the models of a run have room on a GPU, before any of them is opened. */
import { openCheckpoint } from '../checkpoint/open-checkpoint.js';
import { parseHybrid } from '../draft/hybrid/hybrid.js';
import { recogniseCheckpoint } from '../draft/systems.js';
import type { ModelConfiguration } from '../model/configuration.js';
import { parseConfiguration } from '../model/configuration.js';
import { layerRecipes } from '../model/weights.js';
import type { ComputeType, DeviceChoice, GpuHost } from '../runtime/device-choice.js';
import { keepIfRoom, nameDevice, thisMachine } from '../runtime/device-choice.js';

/** What a model takes of a GPU's memory, from its configuration alone. */
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

function weightBytesOf(shape: readonly number[], dtype: ComputeType): number {
  const count = shape.reduce((product, size) => product * size, 1);
  return count * (shape.length > 1 ? typeBytes[dtype] : floatBytes);
}

/** Tokens of context that there is room for beside the weights; negative where the weights alone are too large. */
export function countFittingTokens({ weightBytes, bytesPerToken }: GpuMemory, freeBytes: number): number {
  return Math.floor((freeBytes - passBytes - weightBytes) / bytesPerToken);
}

/** How long prompt and answer are is not known yet: a run begins where so many tokens have room. */
export const expectedTokens = 4096;

/**
 * For targets and drafters given by their folders; systems without weights take nothing.
 * @example
 * const runtime = await createRuntime({ countBytes: (dtype) => countGpuBytes([bundledTarget], dtype) });
 */
export async function countGpuBytes(folders: readonly string[], dtype: ComputeType): Promise<number> {
  let total = passBytes;
  for (const folder of folders) total += await countFolder(folder, dtype);
  return total;
}

/** The device on which models of these folders run. Says so unless that is the CPU of a machine that has nothing else. */
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

async function countFolder(folder: string, dtype: ComputeType): Promise<number> {
  try {
    const checkpoint = await openCheckpoint(parseHybrid(folder)?.behind ?? folder);
    if (recogniseCheckpoint(checkpoint).kind === 'decoder') {
      const configuration = parseConfiguration(checkpoint.config, folder);
      const { weightBytes, bytesPerToken } = estimateGpuMemory(configuration, dtype);
      return weightBytes + bytesPerToken * Math.min(expectedTokens, configuration.contextLength);
    }
    return [...checkpoint.tensors.values()].reduce((sum, { shape }) => sum + weightBytesOf(shape, dtype), 0);
  } catch {
    return 0; // what is wrong with it is said by whoever opens it
  }
}
