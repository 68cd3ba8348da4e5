/**
 * Products of a pass over candidates in the 7B shape by themselves: TFLOP/s by rows, by what is written, and by how many
 * of the library's proposals are tried. Operands are random, since a GPU that multiplies zeros draws less power and is faster.
 * Run: npm run bench:gpu-products
 */
import { CudaDevice } from '../src/runtime/cuda/driver/cuda-device.js';
import type { FloatType } from '../src/runtime/cuda/driver/device.js';
import { findDevices } from '../src/runtime/cuda/driver/find-devices.js';
import { printTable } from './stopwatch.js';

const rowCounts = [1024, 2048, 3072, 3168, 4048, 4096, 6144, 8192, 12_288];
const matrices = [
  [4096, 4096],
  [4096, 11_008],
  [11_008, 4096],
  [4096, 12_288],
  [4096, 22_016],
  [4096, 32_000],
] as const;
const kept = 6; // matrices that take turns, as those of layers do
const rounds = 12;

if (findDevices().devices.length === 0) console.log('There is no GPU.');
else await measureProducts();

async function measureProducts(): Promise<void> {
  const device = CudaDevice.open();
  console.log(`${device.name}, bfloat16, float32 sums, ${kept} matrices in turn`);
  const most = Math.max(...rowCounts);
  const leftAddress = await fillRandom(device, most * 11_008);
  const resultAddress = device.allocate(most * 32_000 * 4);
  const table = [['[inner, columns] to', ...rowCounts.map(String)]];
  for (const [inner, columns] of matrices) {
    const rights: bigint[] = [];
    for (let index = 0; index < kept; index++) rights.push(await fillRandom(device, inner * columns));
    for (const type of ['float32', 'bfloat16'] as const) {
      const cells: string[] = [];
      for (const rows of rowCounts) {
        const multiply = (index: number): void => {
          device.multiply({
            ...{ rows, columns, inner, batch: 1, scale: 1 },
            left: matrix(leftAddress, 'bfloat16', inner),
            right: { ...matrix(rights[index % kept]!, 'bfloat16', inner), transposed: true },
            result: matrix(resultAddress, type, columns),
          });
        };
        multiply(0);
        await device.synchronize();
        const start = performance.now();
        for (let index = 0; index < rounds; index++) multiply(index);
        await device.synchronize();
        const ms = (performance.now() - start) / rounds;
        cells.push(((2 * rows * inner * columns) / ms / 1e9).toFixed(0));
      }
      table.push([`[${inner}, ${columns}] to ${type}`, ...cells]);
    }
    for (const address of rights) device.free(address);
  }
  printTable(table);
  device.dispose();
}

function matrix(address: bigint, type: FloatType, rowStride: number) {
  return { address, type, rowStride, batchStride: 0, transposed: false };
}

/** Values of about one hundredth, in bfloat16. */
async function fillRandom(device: CudaDevice, count: number): Promise<bigint> {
  const address = device.allocate(count * 2);
  const source = `extern "C" __global__ void fill(unsigned short* to, int count, int seed) {
  for (int at = blockIdx.x * blockDim.x + threadIdx.x; at < count; at += gridDim.x * blockDim.x) {
    unsigned state = at * 747796405u + seed * 2891336453u;
    state = ((state >> ((state >> 28) + 4)) ^ state) * 277803737u;
    state = (state >> 22) ^ state;
    const float value = ((int)state) * (0.02f / 2147483648.0f);
    to[at] = (unsigned short)(__float_as_uint(value) >> 16);
  }
}`;
  const module = device.compile(source);
  device.launch({
    kernel: module.kernel('fill'),
    grid: [4096, 1, 1],
    block: 256,
    arguments: [address, count, Number(address % 65_521n)],
  });
  await device.synchronize();
  module.unload();
  return address;
}
