import type { ComputeType, DeviceChoice, DeviceWish, GpuHost, RecordedDevice } from './device-choice.js';
import { chooseDevice, keepIfRoom, thisMachine, waitingDevice } from './device-choice.js';
import { createOnnxRuntime } from './onnx/onnx-runtime.js';
import type { Runtime } from './program.js';

export interface RuntimeOptions extends DeviceWish {
  /** CPU only; default all. */
  readonly threads?: number | undefined;
  /** Memory that the models need; `auto` skips GPUs without room. */
  readonly countBytes?: ((dtype: ComputeType) => Promise<number>) | undefined;
}

/**
 * @example
 * const runtime = await createRuntime({ device: 'auto' }); // the first GPU that can be used, else the CPU
 * const target = await openTarget(bundledTarget, { runtime });
 */
export async function createRuntime(
  options: RuntimeOptions = {},
  host: GpuHost = thisMachine,
): Promise<Runtime> {
  const choice: DeviceChoice = await chooseDevice(options, host);
  const { countBytes, threads } = options;
  return openRuntime(countBytes === undefined ? choice : await keepIfRoom(choice, countBytes, host), threads);
}

export async function openRuntime(choice: RecordedDevice, threads?: number): Promise<Runtime> {
  if (choice.kind === 'cpu') {
    const quantization = choice.dtype === 'float32' ? undefined : choice.dtype;
    return createOnnxRuntime({ threads, quantization });
  }
  const device = await waitingDevice.open(choice.ordinal);
  const { createCudaRuntime } = await import('./cuda/cuda-runtime.js');
  return createCudaRuntime(device, { productType: choice.dtype });
}
