/** The device of a run: recorded at the start, and required again on resume. */
import { z } from 'zod';
import { MistletoeError } from '../core/errors.js';
import { DeviceLostError, OutOfMemoryError, type Runtime } from '../runtime/program.js';
import type { DeviceChoice, DeviceWish, GpuHost, RecordedDevice } from '../runtime/device-choice.js';
import {
  chooseDevice,
  computeTypes,
  nameDevice,
  processorDevice,
  thisMachine,
} from '../runtime/device-choice.js';
import { isQuantized, quantizedTypes } from '../runtime/weights.js';

export const deviceSchema = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('cpu'), dtype: z.enum(['float32', ...quantizedTypes]) }),
  z.object({
    kind: z.literal('cuda'),
    dtype: z.enum(computeTypes),
    ordinal: z.number().int().nonnegative(),
    name: z.string(),
  }),
]) satisfies z.ZodType<RecordedDevice>;

/** Searches and training follow gradients of the weights, which quantized ones do not have. */
export async function chooseRunDevice({ device, dtype }: DeviceWish): Promise<DeviceChoice> {
  if (dtype === undefined || !isQuantized(dtype)) return chooseDevice({ device, dtype });
  throw new MistletoeError(
    'usage',
    `--dtype is ${dtype}, which serves decoding alone: audits and training need gradients of the weights.`,
    { hint: 'Leave --dtype out. generate, bench and serve take int8 and int4.' },
  );
}

interface Recorded {
  readonly device?: RecordedDevice | undefined;
}

/** Runs of versions without GPU support have none. */
export const deviceOf = ({ device = processorDevice }: Recorded): RecordedDevice => device;

/**
 * The same device on this machine: the CPU, or a GPU of the same name, wherever it is counted. Two kinds of GPU sum in
 * different orders, so what one began the other cannot end.
 */
export async function findSameDevice(
  request: Recorded,
  host: GpuHost = thisMachine,
): Promise<RecordedDevice> {
  const device = deviceOf(request);
  if (device.kind === 'cpu') return device;
  const search = await host.find();
  const alike = search.devices.filter(({ name }) => name === device.name);
  const found = alike.find(({ ordinal }) => ordinal === device.ordinal) ?? alike[0];
  if (found !== undefined) return { ...device, ordinal: found.ordinal };
  const here =
    search.devices.length > 0
      ? `this machine has ${search.devices.map(({ name }) => name).join(', ')}`
      : `no GPU can be used here: ${(search.reason ?? 'the driver sees none').replace(/\.$/, '')}`;
  throw new MistletoeError('usage', `The run computes on ${device.name} in ${device.dtype}; ${here}.`, {
    hint: 'Resume on the device it was started on, or start a new run: results of two devices cannot be compared.',
  });
}

/** A given runtime must be of the kind that the run records. */
export function requireSameKind(request: Recorded, { name }: Pick<Runtime, 'name'>): void {
  const device = deviceOf(request);
  if (name !== (device.kind === 'cuda' ? 'onnx' : 'cuda')) return;
  throw new MistletoeError(
    'usage',
    `The run computes on ${nameDevice(device)}; the given runtime is ${name}.`,
    {
      hint: 'Create the request with the device of the runtime.',
    },
  );
}

/** Adds how to resume after a device failure. */
export function tellToResume(cause: unknown, path: string): unknown {
  const resume = `mistletoe audit --resume ${path}`;
  if (cause instanceof DeviceLostError) {
    const hint = `${cause.hint} Finished work is kept. Resume with: ${resume}`;
    return new DeviceLostError(cause.message, hint);
  }
  if (cause instanceof OutOfMemoryError) {
    const hint = `Free memory on the GPU and resume with ${resume}, or start a new run with a smaller --window or --suffix-length, with shorter prompts, or in a smaller type (--dtype bfloat16).`;
    return new OutOfMemoryError(cause.message, hint);
  }
  return cause;
}
