/** Devices for workers: `cuda:0,cuda:1` or `cuda:all`, and how many processes run on each. */
import { formatBytes } from '../core/number-text.js';
import { MistletoeError } from '../core/errors.js';
import { countGpuBytes } from '../decode/gpu-fit.js';
import { type GpuHost, type RecordedDevice, deviceForm, thisMachine } from '../runtime/device-choice.js';

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
      {
        hint: 'Leave --device out to use the CPU.',
      },
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

export interface WorkerPlan {
  /** Processes. */
  readonly count: number;
  /** GPUs for the workers in turn, all of the kind of the run's; by default its own device for all. */
  readonly devices?: readonly { readonly ordinal: number; readonly name: string }[] | undefined;
}

export interface WorkerSeat {
  readonly name: string;
  readonly device: RecordedDevice;
  readonly threads: number;
}

/** The devices in turn. The workers share the CPU threads that the run may use. */
export function seatWorkers(
  { count, devices = [] }: WorkerPlan,
  device: RecordedDevice,
  threads: number,
): readonly WorkerSeat[] {
  return Array.from({ length: count }, (_, index): WorkerSeat => {
    const place = devices[index % Math.max(1, devices.length)];
    const isPlaced = device.kind === 'cuda' && place !== undefined;
    const own = isPlaced ? { ...device, ordinal: place.ordinal, name: place.name } : device;
    const name = `worker-${index + 1}${own.kind === 'cpu' ? '' : ` (cuda:${own.ordinal})`}`;
    return { name, device: own, threads: Math.max(1, Math.floor(threads / count)) };
  });
}

/** Refuses more processes on a GPU than its free memory holds: each has its own copy of the weights. */
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
      `cuda:${ordinal} has ${formatBytes(freeBytes)} free; ${count} worker processes on it need at least ${formatBytes(bytes)} each in ${dtype}.`,
      { hint: `Use --workers ${fitting * ordinals.size} or fewer.` },
    );
  }
}
