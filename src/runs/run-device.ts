/** The device of a run: recorded at the start, and required again on resume. */
import * as z from '../core/schema.js';
import { MistletoeError } from '../core/errors.js';
import { maxThreads } from '../core/limits.js';
import { DeviceLostError, OutOfMemoryError, type Runtime } from '../runtime/program.js';
import {
  chooseDevice,
  computeTypes,
  type DeviceChoice,
  deviceForm,
  type DeviceWish,
  type GpuHost,
  nameDevice,
  processorDevice,
  type RecordedDevice,
  thisMachine,
} from '../runtime/device-choice.js';
import { isQuantized, quantizedTypes } from '../runtime/weights.js';
import { availableParallelism, cpus, totalmem, type as systemName } from 'node:os';
import { readVersion } from '../core/package-files.js';
import { countText, formatBytes } from '../core/number-text.js';
import { countGpuBytes } from '../decode/gpu-fit.js';

export const deviceSchema = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('cpu'), dtype: z.enum(['float32', ...quantizedTypes]) }),
  z.object({
    kind: z.literal('cuda'),
    dtype: z.enum(computeTypes),
    ordinal: z.number().int().nonnegative(),
    name: z.string(),
  }),
]) satisfies z.ZodType<RecordedDevice>;

export const threadsSchema = z.number().int().min(1).max(maxThreads);

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

export function requireSameKind(
  request: Recorded,
  { name, quantization }: Pick<Runtime, 'name' | 'quantization'>,
): void {
  if (quantization !== undefined) {
    throw new MistletoeError(
      'usage',
      `The given runtime has ${quantization} weights; audits and training need float32 weights on the CPU.`,
      { hint: 'Create the runtime without quantization: drafting with quantized weights is lossy.' },
    );
  }
  const device = deviceOf(request);
  if (name !== (device.kind === 'cuda' ? 'onnx' : 'cuda')) return;
  throw new MistletoeError(
    'usage',
    `The run computes on ${nameDevice(device)}; the given runtime is ${name}.`,
    { hint: 'Create the request with the device of the runtime.' },
  );
}

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

/** The machine and the version that numbers were measured with. */
export function describeMachine(device: RecordedDevice = processorDevice) {
  return {
    /** The processor or a GPU, and the compute type. */
    device,
    processor: cpus()[0]?.model.replace(/\s+/g, ' ').trim() ?? 'unknown processor',
    cores: availableParallelism(),
    memoryBytes: totalmem(),
    system: systemName(),
    architecture: process.arch,
    nodeVersion: process.version,
    mistletoeVersion: readVersion(),
  };
}
export type Machine = Readonly<ReturnType<typeof describeMachine>>;

// Devices for workers: `cuda:0,cuda:1` or `cuda:all`, and how many run on each.
/** The text itself if it is a device, a list of GPUs, or cuda:all. */
export function readDeviceList(given: string): string | undefined {
  if (deviceForm.test(given) || given === 'cuda:all') return given;
  return given.split(',').every((part) => /^cuda(?::\d{1,4})?$/.test(part)) ? given : undefined;
}

/** Undefined if the text names one device. */
export async function findDevices(
  given: string | undefined,
  host: GpuHost = thisMachine,
): Promise<readonly { readonly ordinal: number; readonly name: string }[] | undefined> {
  if (given === undefined || deviceForm.test(given)) return undefined;
  const { devices, reason } = await host.find();
  if (devices.length === 0) {
    throw new MistletoeError(
      'usage',
      `--device is ${given}, but no GPU can be used: ${reason ?? 'the driver reports none'}`,
      { hint: 'Leave --device out to use the CPU.' },
    );
  }
  const wanted =
    given === 'cuda:all'
      ? devices.map(({ ordinal }) => ordinal)
      : given.split(',').map((part) => Number(part.split(':')[1] ?? 0));
  const found = wanted.map((ordinal) => {
    const device = devices.find((each) => each.ordinal === ordinal);
    if (device !== undefined) return device;
    const here = devices.map((each) => `cuda:${each.ordinal} (${each.name})`).join(', ');
    throw new MistletoeError('usage', `There is no GPU cuda:${ordinal}; this machine has ${here}.`, {
      hint: 'Name only these, or use cuda:all.',
    });
  });
  const names = [...new Set(found.map(({ name }) => name))];
  if (names.length === 1) return found;
  throw new MistletoeError('usage', `--device names several kinds of GPUs: ${names.join(', ')}.`, {
    hint: 'They round differently, so one run uses one kind. Start a run for each kind.',
  });
}

/** Threads on GPUs, processes on the CPU. */
export interface WorkerPlan {
  readonly count: number;
  /** GPUs for the workers in turn, all of the kind of the run's; by default its own device for all. */
  readonly devices?: readonly { readonly ordinal: number; readonly name: string }[] | undefined;
}

export interface WorkerSeat {
  readonly name: string;
  readonly device: RecordedDevice;
  /** Of a worker that is a thread. */
  readonly gpu: number | undefined;
}

/** The devices in turn. */
export function seatWorkers(
  { count, devices = [] }: WorkerPlan,
  device: RecordedDevice,
): readonly WorkerSeat[] {
  return Array.from({ length: count }, (_, index): WorkerSeat => {
    const place = devices[index % Math.max(1, devices.length)];
    const isPlaced = device.kind === 'cuda' && place !== undefined;
    const own = isPlaced ? { ...device, ordinal: place.ordinal, name: place.name } : device;
    const gpu = own.kind === 'cpu' ? undefined : own.ordinal;
    const name = `worker-${index + 1}${gpu === undefined ? '' : ` (cuda:${gpu})`}`;
    return { name, device: own, gpu };
  });
}

/**
 * CPU threads of each process of a run. Sums depend on their number, so the run records it, and every worker uses it,
 * however many there are. By default the workers that are known at the start divide the cores; a GPU sums by itself.
 */
export function chooseThreads(
  { threads, workers = 1 }: { readonly threads?: number | undefined; readonly workers?: number | undefined },
  { kind }: Pick<RecordedDevice, 'kind'>,
  cores = availableParallelism(),
): number {
  const sharing = kind === 'cpu' ? workers : 1;
  return threads ?? Math.min(Math.max(1, Math.floor(cores / sharing)), maxThreads);
}

/** Workers with more threads than the machine has cores wait for each other. */
export function noteCrowding(
  workers: readonly { readonly device: RecordedDevice }[],
  threads: number,
  onNotice: ((message: string) => void) | undefined,
  cores = availableParallelism(),
): void {
  const count = workers.filter(({ device }) => device.kind === 'cpu').length;
  if (count * threads <= cores) return;
  onNotice?.(
    `${countText(count, 'process')} with ${countText(threads, 'thread')} each share ${countText(cores, 'core')}, which slows them down. The run keeps its number of threads, because results depend on it.`,
  );
}

/** Refuses more workers on a GPU than its free memory holds: each has its own copy of the weights. */
export async function requireRoom(
  devices: readonly RecordedDevice[],
  folders: readonly string[],
  host: Pick<GpuHost, 'freeBytes'> = thisMachine,
): Promise<void> {
  const gpus = devices.filter((device) => device.kind === 'cuda');
  const ordinals = new Set(gpus.map(({ ordinal }) => ordinal));
  for (const ordinal of ordinals) {
    const { dtype } = gpus[0]!;
    const count = gpus.filter((device) => device.ordinal === ordinal).length;
    // Whether one fits is known once it opens the models.
    if (count === 1) continue;
    const [bytes, freeBytes] = [await countGpuBytes(folders, dtype), await host.freeBytes(ordinal)];
    if (count * bytes <= freeBytes) continue;
    const fitting = Math.max(1, Math.floor(freeBytes / bytes));
    throw new MistletoeError(
      'usage',
      `cuda:${ordinal} has ${formatBytes(freeBytes)} free; ${count} workers on it need at least ${formatBytes(bytes)} each in ${dtype}.`,
      { hint: `Use --workers ${fitting * ordinals.size} or fewer.` },
    );
  }
}

/** Each takes a core and a copy of the models. */
const maxDefaultWorkers = 8;

/** Workers of a GPU if no number is given: one core is left to the thread that writes the run. */
export function countDefaultWorkers(limits: {
  readonly cores: number;
  readonly searches: number;
  readonly freeBytes: number;
  /** Of the models of one worker. Its passes may take as much again. */
  readonly modelBytes: number;
}): number {
  const { cores, searches, freeBytes, modelBytes } = limits;
  const fitting = Math.floor(freeBytes / (2 * modelBytes));
  return Math.max(1, Math.min(maxDefaultWorkers, cores - 1, searches, fitting));
}
