/**
 * Where a model runs: the user's choice and the machine's GPUs. CUDA is only loaded if a GPU is requested or the
 * driver is installed.
 */
import { existsSync } from 'node:fs';
import { formatBytes } from '../core/number-text.js';
import { describeCause, MistletoeError } from '../core/errors.js';
import type { Device } from './cuda/driver/device.js';
import type { DeviceSearch, FoundDevice } from './cuda/driver/find-devices.js';
import { type QuantizedType, isQuantized } from './weights.js';

/**
 * Keeps a GPU open between asking for its free memory and computing on it, because opening takes most of a second. It
 * is closed if nobody uses it.
 */
const patienceMs = 5000;

export class WaitingDevice {
  private waiting: { readonly ordinal: number; readonly device: Device } | undefined;
  private timer: NodeJS.Timeout | undefined;

  constructor(private readonly openDevice: (ordinal: number) => Promise<Device>) {}

  async freeBytes(ordinal: number): Promise<number> {
    const device = await this.open(ordinal);
    try {
      const free = device.freeBytes();
      this.waiting = { ordinal, device };
      this.timer = setTimeout(() => {
        this.leave();
      }, patienceMs);
      this.timer.unref();
      return free;
    } catch (cause) {
      device.dispose();
      throw cause;
    }
  }

  /** Passes ownership to the caller. */
  async open(ordinal: number): Promise<Device> {
    const found = this.waiting?.ordinal === ordinal ? this.waiting.device : undefined;
    if (found === undefined) this.leave();
    clearTimeout(this.timer);
    this.waiting = undefined;
    return found ?? this.openDevice(ordinal);
  }

  private leave(): void {
    this.waiting?.device.dispose();
    this.waiting = undefined;
  }
}

export const waitingDevice = new WaitingDevice(async (ordinal) => {
  const { CudaDevice } = await import('./cuda/driver/cuda-device.js');
  return CudaDevice.open(ordinal);
});

export const computeTypes = ['float32', 'bfloat16', 'float16'] as const;
export type ComputeType = (typeof computeTypes)[number];

/** `auto`, `cpu`, `cuda` for the first GPU, `cuda:1` for the second. */
export const deviceForm = /^(?:auto|cpu|cuda(?::\d{1,4})?)$/;
export const deviceForms = 'auto, cpu, cuda or cuda:N';

export interface DeviceWish {
  readonly device?: string | undefined;
  readonly dtype?: ComputeType | QuantizedType | undefined;
}

export type DeviceChoice = ProcessorChoice | GpuChoice;

export interface ProcessorChoice {
  readonly kind: 'cpu';
  readonly dtype: 'float32' | QuantizedType;
  /** Why `auto` uses no GPU although the machine seems to have one. */
  readonly reason?: string | undefined;
}

export interface GpuChoice {
  readonly kind: 'cuda';
  readonly dtype: ComputeType;
  readonly ordinal: number;
  readonly name: string;
  readonly totalBytes: number;
  /** Chosen by `auto`: the CPU takes over if the model does not fit. */
  readonly isAutomatic: boolean;
}

export interface GpuHost {
  defaultDevice(): string;
  hasDriver(): boolean;
  find(): Promise<DeviceSearch>;
  freeBytes(ordinal: number): Promise<number>;
}

const driverMarks = ['/dev/nvidiactl', '/proc/driver/nvidia'];

export const thisMachine: GpuHost = {
  defaultDevice() {
    const { MISTLETOE_DEVICE: named = '' } = process.env;
    return named === '' ? 'auto' : named;
  },
  hasDriver: () => driverMarks.some((path) => existsSync(path)),
  async find() {
    const { findDevices } = await import('./cuda/driver/find-devices.js');
    return findDevices();
  },
  freeBytes: (ordinal) => waitingDevice.freeBytes(ordinal),
};

/** Refuses impossible choices early; keepIfRoom checks memory later. */
export async function chooseDevice(wish: DeviceWish, host: GpuHost = thisMachine): Promise<DeviceChoice> {
  const { device = host.defaultDevice(), dtype } = wish;
  if (!deviceForm.test(device)) {
    throw new MistletoeError('usage', `The device is "${device}"; ${deviceForms} was expected.`, {
      hint: 'auto takes the first GPU that can be used, else the CPU; MISTLETOE_DEVICE is what is meant where none is named.',
    });
  }
  if (device === 'cpu') return processor(dtype, 'The CPU was asked for');
  if (dtype !== undefined && isQuantized(dtype)) {
    if (device === 'auto') return { kind: 'cpu', dtype };
    throw new MistletoeError(
      'usage',
      `--dtype is ${dtype}, which the CPU alone has; the device is ${device}.`,
      { hint: 'Give --device cpu, or --dtype bfloat16 for the GPU.' },
    );
  }
  if (device === 'auto' && !host.hasDriver()) return processor(dtype, 'This machine has no NVIDIA driver');
  const { devices, reason = 'The driver sees none.', hint = '' } = await host.find();
  if (device === 'auto') {
    const [first] = devices;
    if (first !== undefined) return gpu(first, dtype, dtype === undefined || dtype === 'float32');
    const why = `${reason} ${hint}`.trim();
    return { ...processor(dtype, why.replace(/\.$/, '')), reason: `Runs on the CPU. ${why}` };
  }
  const ordinal = Number(device.split(':')[1] ?? 0);
  const named = devices.find((found) => found.ordinal === ordinal);
  if (named !== undefined) return gpu(named, dtype, false);
  if (devices.length > 0) {
    const list = devices.map((found) => `cuda:${found.ordinal} (${found.name})`).join(', ');
    throw new MistletoeError('usage', `There is no GPU ${device}; this machine has ${list}.`, {
      hint: 'Choose one of these, or leave --device out.',
    });
  }
  throw new MistletoeError('usage', `The device is ${device}, but no GPU can be used: ${reason}`, {
    hint: `${hint} Without --device, the CPU is used where there is no GPU.`.trim(),
  });
}

/** Falls back to the CPU if an automatic choice has too little free memory. */
export async function keepIfRoom(
  choice: DeviceChoice,
  countBytes: (dtype: ComputeType) => Promise<number>,
  host: GpuHost = thisMachine,
): Promise<DeviceChoice> {
  if (choice.kind === 'cpu' || !choice.isAutomatic) return choice;
  const { name, dtype, ordinal } = choice;
  const needed = await countBytes(dtype);
  let fault: string;
  try {
    const free = await host.freeBytes(ordinal);
    if (needed <= free) return choice;
    fault = `has ${formatBytes(free)} free, and the model needs ${formatBytes(needed)} in ${dtype}`;
  } catch (cause) {
    // Another process may hold all memory or have exclusive access.
    fault = `cannot be opened: ${describeCause(cause).replace(/\.$/, '')}`;
  }
  return { kind: 'cpu', dtype: 'float32', reason: `Runs on the CPU: ${name} ${fault}.` };
}

function processor(dtype: DeviceWish['dtype'], why: string): ProcessorChoice {
  if (dtype === undefined || dtype === 'float32') return { kind: 'cpu', dtype: 'float32' };
  if (isQuantized(dtype)) return { kind: 'cpu', dtype };
  throw new MistletoeError('usage', `${why}, and --dtype is ${dtype}; the CPU has float32, int8 and int4.`, {
    hint: 'Leave --dtype out, or run on a GPU with --device cuda.',
  });
}

/** bfloat16 needs compute capability 8 (Ampere). */
const firstWithBfloat16 = 8;

function gpu(found: FoundDevice, dtype: ComputeType | undefined, isAutomatic: boolean): GpuChoice {
  const { ordinal, name, totalBytes, computeCapability } = found;
  const hasBfloat16 = computeCapability[0] >= firstWithBfloat16;
  if (dtype === 'bfloat16' && !hasBfloat16) {
    throw new MistletoeError(
      'usage',
      `--dtype is bfloat16, which ${name} (compute capability ${computeCapability.join('.')}) does not have.`,
      { hint: 'Give --dtype float16 or float32.' },
    );
  }
  return {
    kind: 'cuda',
    dtype: dtype ?? (hasBfloat16 ? 'bfloat16' : 'float32'),
    ordinal,
    name,
    totalBytes,
    isAutomatic,
  };
}

export const processorDevice = { kind: 'cpu', dtype: 'float32' } as const satisfies RecordedDevice;

/** the CPU in float32; NVIDIA H200 (cuda:0) in bfloat16 */
export function nameDevice(choice: RecordedDevice): string {
  if (choice.kind === 'cpu') return `the CPU in ${choice.dtype}`;
  return `${choice.name} (cuda:${choice.ordinal}) in ${choice.dtype}`;
}

/** The part of a choice that determines the numbers. */
export type RecordedDevice =
  | Pick<ProcessorChoice, 'kind' | 'dtype'>
  | Pick<GpuChoice, 'kind' | 'dtype' | 'ordinal' | 'name'>;

export function recordDevice(choice: DeviceChoice): RecordedDevice {
  const { kind, dtype } = choice;
  return kind === 'cpu' ? { kind, dtype } : { kind, dtype, ordinal: choice.ordinal, name: choice.name };
}
