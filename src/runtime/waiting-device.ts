/**
 * Keeps a GPU open between asking for its free memory and computing on it, because opening takes most of a second. It
 * is closed if nobody uses it.
 */
import type { Device } from './cuda/driver/device.js';

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
