/** Whether the models of a run have room on a GPU, before any of them is opened. */
import { openCheckpoint } from '../checkpoint/open-checkpoint.js';
import { recogniseCheckpoint } from '../draft/systems.js';
import { parseConfiguration } from '../model/configuration.js';
import { estimateGpuMemory, passBytes, weightBytesOf } from '../model/gpu-memory.js';
import type { ComputeType, DeviceChoice, GpuHost } from '../runtime/device-choice.js';
import { keepIfRoom, nameDevice, thisMachine } from '../runtime/device-choice.js';

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
    const checkpoint = await openCheckpoint(folder);
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
