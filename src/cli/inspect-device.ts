/** Where a model would run, and whether it has room there. */
import { formatBytes } from '../core/byte-size.js';
import type { ModelConfiguration } from '../model/configuration.js';
import { countFittingTokens, estimateGpuMemory, expectedTokens, passBytes } from '../decode/gpu-fit.js';
import type { DeviceWish, GpuHost, RecordedDevice } from '../runtime/device-choice.js';
import { chooseDevice, keepIfRoom, nameDevice, recordDevice, thisMachine } from '../runtime/device-choice.js';
import type { Line } from './inspection-lines.js';
import { formatCount } from './inspection-lines.js';

export interface DeviceFit {
  readonly device: RecordedDevice;
  /** Why it is not a GPU, where the machine seems to have one. */
  readonly reason?: string;
  /** On a GPU alone. */
  readonly memory?: {
    readonly weightBytes: number;
    /** Keys and values of the whole context. */
    readonly cacheBytes: number;
    readonly freeBytes: number;
    /** Tokens of context that there is room for; 0 where the weights alone are too large. */
    readonly fittingTokens: number;
  };
}

export async function describeFit(
  model: ModelConfiguration,
  wish: DeviceWish,
  host: GpuHost = thisMachine,
): Promise<DeviceFit> {
  const { contextLength } = model;
  const countBytes = (dtype: RecordedDevice['dtype']): Promise<number> => {
    const { weightBytes, bytesPerToken } = estimateGpuMemory(model, dtype);
    return Promise.resolve(passBytes + weightBytes + bytesPerToken * Math.min(expectedTokens, contextLength));
  };
  const choice = await keepIfRoom(await chooseDevice(wish, host), countBytes, host);
  const device = recordDevice(choice);
  if (choice.kind === 'cpu')
    return { device, ...(choice.reason === undefined ? {} : { reason: choice.reason }) };
  const memory = estimateGpuMemory(model, choice.dtype);
  const freeBytes = await host.freeBytes(choice.ordinal);
  const fittingTokens = Math.min(contextLength, Math.max(0, countFittingTokens(memory, freeBytes)));
  const { weightBytes, bytesPerToken } = memory;
  const cacheBytes = bytesPerToken * contextLength;
  return { device, memory: { weightBytes, cacheBytes, freeBytes, fittingTokens } };
}

export function fitLines({ device, reason, memory }: DeviceFit, model: ModelConfiguration): readonly Line[] {
  if (memory === undefined) return [['would run on', reason ?? nameDevice(device)]];
  const { weightBytes, cacheBytes, freeBytes, fittingTokens } = memory;
  const isWhole = fittingTokens === model.contextLength;
  const verdict = isWhole
    ? 'fits'
    : fittingTokens > 0
      ? `fits with a context of up to ${formatCount(fittingTokens)} tokens`
      : 'does not fit';
  return [
    ['would run on', `${nameDevice(device)}, ${formatBytes(freeBytes)} free: ${verdict}`],
    [
      '  memory there',
      `${formatBytes(weightBytes)} of weights, ${formatBytes(cacheBytes)} of KV cache for the whole context`,
    ],
  ];
}
