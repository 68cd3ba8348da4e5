/** A device that says what it launched, itself or from a recording. */
import type { Device, Recording } from '../../src/runtime/cuda/driver/device.js';

export interface LaunchCounts {
  kernels: number;
  products: number;
}

export function countLaunches(device: Device): { readonly device: Device; readonly counts: LaunchCounts } {
  const counts: LaunchCounts = { kernels: 0, products: 0 };
  const recorded = new WeakMap<Recording, LaunchCounts>();
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
      record(work) {
        const before = { ...counts };
        const recording = device.record(work);
        const [kernels, products] = [counts.kernels - before.kernels, counts.products - before.products];
        recorded.set(recording, { kernels, products });
        Object.assign(counts, before);
        return recording;
      },
      replay(recording) {
        const { kernels, products } = recorded.get(recording)!;
        counts.kernels += kernels;
        counts.products += products;
        device.replay(recording);
      },
    },
  };
}
