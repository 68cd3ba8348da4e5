/** Devices for workers: `cuda:0,cuda:1` or `cuda:all`. */
import { MistletoeError } from '../core/errors.js';
import type { GpuHost, RecordedDevice } from '../runtime/device-choice.js';
import { deviceForm, thisMachine } from '../runtime/device-choice.js';

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
    throw new MistletoeError('usage', `--device is ${given}, but no GPU can be used: ${reason ?? 'the driver reports none'}`, {
      hint: 'Leave --device out to use the CPU.',
    });
  }
  const wanted =
    given === 'cuda:all' ? devices.map(({ ordinal }) => ordinal) : given.split(',').map((part) => Number(part.split(':')[1] ?? 0));
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

/** The run's device at each of these places. */
export function placeOn(
  device: RecordedDevice,
  devices: readonly { readonly ordinal: number; readonly name: string }[],
): readonly RecordedDevice[] {
  return devices.map(({ ordinal, name }) => (device.kind === 'cuda' ? { ...device, ordinal, name } : device));
}
