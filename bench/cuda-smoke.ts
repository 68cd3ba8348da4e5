/**
 * Whether the GPU does what the runtime asks of it, where nothing but Node is at hand: each check, and what differs.
 * Run as: node out/bench/bench/cuda-smoke.js
 */
import { CudaDevice } from '../src/runtime/cuda/driver/cuda-device.js';
import { findDevices } from '../src/runtime/cuda/driver/find-devices.js';
import { deviceChecks } from '../test/support/runtime/cuda/device-checks.js';

const { devices, reason } = findDevices();
if (reason !== undefined) console.log(`No GPU: ${reason}`);
for (const { ordinal, name, totalBytes, computeCapability } of devices) {
  console.log(
    `GPU ${ordinal}: ${name}, ${totalBytes} bytes, compute capability ${computeCapability.join('.')}`,
  );
}

if (devices.length > 0) {
  const started = performance.now();
  const device = CudaDevice.open();
  console.log(`opened in ${Math.round(performance.now() - started)} ms, ${device.freeBytes()} bytes free`);
  let failures = 0;
  for (const { name, run } of deviceChecks) {
    const begun = performance.now();
    let differences: string[];
    try {
      differences = await run(device);
    } catch (cause) {
      differences = [cause instanceof Error ? (cause.stack ?? cause.message) : String(cause)];
    }
    failures += differences.length;
    console.log(
      `${differences.length === 0 ? 'OK' : 'DIFFERS'} ${name} (${Math.round(performance.now() - begun)} ms)`,
    );
    for (const difference of differences.slice(0, 20)) console.log(`  ${difference}`);
    if (differences.length > 20) console.log(`  and ${differences.length - 20} more`);
  }
  await measureLatency(device);
  device.dispose();
  console.log(failures === 0 ? 'OK: everything agrees' : `DIFFERS: ${failures} in all`);
  process.exitCode = failures === 0 ? 0 : 1;
}

/** What a launch, a small product and a round trip cost on this side. */
async function measureLatency(device: CudaDevice): Promise<void> {
  const module = device.compile('extern "C" __global__ void nothing(int* at, int value) {}');
  const kernel = module.kernel('nothing');
  const address = device.allocate(3 << 20);
  const operand = { type: 'bfloat16', rowStride: 64, batchStride: 0, transposed: false } as const;
  const product = {
    ...{ rows: 64, columns: 64, inner: 64, batch: 1, scale: 1 },
    left: { ...operand, address },
    right: { ...operand, address: address + BigInt(1 << 20) },
    result: { ...operand, address: address + BigInt(2 << 20) },
  };
  const read = new Float32Array(1);
  const [rounds, repeated] = [100, 100];
  const time = async (name: string, times: number, act: () => Promise<void> | void): Promise<void> => {
    await act();
    await device.synchronize();
    const begun = performance.now();
    for (let index = 0; index < rounds; index++) await act();
    await device.synchronize();
    console.log(`${name}: ${((1000 * (performance.now() - begun)) / rounds / times).toFixed(2)} us`);
  };
  await time('launch', repeated, () => {
    for (let index = 0; index < repeated; index++) {
      device.launch({ kernel, grid: [1, 1, 1], block: 32, arguments: [address, index] });
    }
  });
  await time('product', repeated, () => {
    for (let index = 0; index < repeated; index++) device.multiply(product);
  });
  await time('download of 4 bytes', 1, () => device.download(address, read));
  device.free(address);
  module.unload();
}
