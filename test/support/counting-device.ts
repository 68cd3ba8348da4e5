/** A device that says what it was asked to launch. */
import type { Device } from '../../src/runtime/cuda/driver/device.js';

export interface LaunchCounts {
  kernels: number;
  products: number;
}

export function countLaunches(device: Device): { readonly device: Device; readonly counts: LaunchCounts } {
  const counts: LaunchCounts = { kernels: 0, products: 0 };
  return {
    counts,
    device: {
      ...device,
      launch(launch) {
        counts.kernels += 1;
        device.launch(launch);
      },
      multiply(product) {
        counts.products += 1;
        device.multiply(product);
      },
    },
  };
}
