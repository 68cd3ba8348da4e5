/**
 * A GPU that was opened to ask how much of its memory is free waits here for whoever is about to compute on it, because
 * opening one takes a good part of a second. Where nobody comes, it is closed again.
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
      // It goes with the process, which need not stay for it.
      this.timer.unref();
      return free;
    } catch (cause) {
      device.dispose();
      throw cause;
    }
  }

  /** The one that waits, if it is that one; it belongs to the caller then. */
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

/** Of this thread, which has a driver of its own. */
export const waitingDevice = new WaitingDevice(async (ordinal) => {
  const { CudaDevice } = await import('./cuda/driver/cuda-device.js');
  return CudaDevice.open(ordinal);
});
