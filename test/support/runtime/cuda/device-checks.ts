/** What a device has to do, each check as a function that says what differs; empty where nothing does. */
import { MistletoeError } from '../../../../src/core/errors.js';
import { decodeHalves, encodeHalves } from '../../../../src/core/half-floats.js';
import type { Address, Device, FloatType } from '../../../../src/runtime/cuda/driver/device.js';
import type { ProductCase } from './product-cases.js';
import { elementSize, naiveProduct, productAt, productCases, sampleValues } from './product-cases.js';

export interface DeviceCheck {
  readonly name: string;
  readonly run: (device: Device) => Promise<string[]> | string[];
}

const kernelSource = `extern "C" __global__ void scale_add(float* to, const float* from, int count, int factor) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) to[i] += factor * from[i];
}
extern "C" __global__ void reverse_shared(int* values, int count) {
  extern __shared__ int held[];
  for (int i = threadIdx.x; i < count; i += blockDim.x) held[i] = values[i];
  __syncthreads();
  for (int i = threadIdx.x; i < count; i += blockDim.x) values[i] = held[count - 1 - i];
}
extern "C" __global__ void where_am_i(int* at) {
  int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  if (threadIdx.x == blockDim.x - 1) at[block] = blockIdx.x * 100 + blockIdx.y * 10 + blockIdx.z;
}
`;

export const deviceChecks: readonly DeviceCheck[] = [
  { name: 'uploads and downloads of many sizes', run: checkRoundTrips },
  { name: 'many uploads in a row, each array changed at once', run: checkManyUploads },
  { name: 'a download sees what was there when it was asked for', run: checkDownloadOrder },
  { name: 'copies and clears', run: checkCopies },
  { name: 'memory that is given back', run: checkMemory },
  { name: 'kernels', run: checkKernels },
  { name: 'products', run: (device) => checkProducts(device, false) },
  { name: 'products and what is added to them', run: (device) => checkProducts(device, true) },
  { name: 'a product over no elements', run: checkEmptyProduct },
  { name: 'errors', run: checkErrors },
];

async function checkRoundTrips(device: Device): Promise<string[]> {
  const differences: string[] = [];
  for (const length of [1, 255, 4099, 1 << 20, (20 << 20) + 5]) {
    const address = device.allocate(length);
    const values = new Uint8Array(length + 3).map((_, index) => index * 7 + length).subarray(3);
    const kept = values.slice();
    device.upload(address, values);
    values.fill(0);
    const read = new Uint8Array(length + 1).subarray(1);
    await device.download(address, read);
    if (!Buffer.from(kept).equals(read)) differences.push(`${length} bytes came back changed`);
    if (address % 256n !== 0n) differences.push(`${length} bytes lie at ${address}, not aligned to 256`);
    device.free(address);
  }
  return differences;
}

async function checkManyUploads(device: Device): Promise<string[]> {
  const [count, length] = [600, 50_000];
  const address = device.allocate(count * length);
  const values = new Uint8Array(length);
  for (let index = 0; index < count; index++) {
    values.fill(index % 251);
    device.upload(address + BigInt(index * length), values);
  }
  const read = new Uint8Array(count * length);
  await device.download(address, read);
  device.free(address);
  const wrong = read.findIndex((value, index) => value !== Math.floor(index / length) % 251);
  return wrong < 0 ? [] : [`byte ${wrong} is ${read[wrong]!}`];
}

async function checkDownloadOrder(device: Device): Promise<string[]> {
  const address = device.allocate(4);
  const reads = [1, 2, 3].map((value) => {
    device.upload(address, Int32Array.of(value));
    const read = new Int32Array(1);
    return device.download(address, read).then(() => read[0]!);
  });
  const values = await Promise.all(reads);
  device.free(address);
  return values.join() === '1,2,3' ? [] : [`read ${values.join()}, expected 1,2,3`];
}

async function checkCopies(device: Device): Promise<string[]> {
  const address = device.allocate(64);
  device.upload(
    address,
    Uint8Array.from({ length: 64 }, (_, index) => index + 1),
  );
  device.copy(address + 32n, address, 16);
  device.clear(address + 8n, 4);
  device.copy(address, address, 0);
  device.clear(address, 0);
  const read = new Uint8Array(64);
  await device.download(address, read);
  device.free(address);
  const expected = (index: number): number =>
    index >= 8 && index < 12 ? 0 : index >= 32 && index < 48 ? index - 31 : index + 1;
  const wrong = read.findIndex((value, index) => value !== expected(index));
  return wrong < 0 ? [] : [`byte ${wrong} is ${read[wrong]!}, expected ${expected(wrong)}`];
}

function checkMemory(device: Device): string[] {
  const bytes = 256 << 20;
  const before = device.freeBytes();
  const address = device.allocate(bytes);
  const during = device.freeBytes();
  device.free(address);
  const after = device.freeBytes();
  const fine = before - during >= bytes && after - during >= bytes && before <= device.totalBytes;
  return fine ? [] : [`of ${device.totalBytes}: ${before} free, then ${during}, then ${after}`];
}

async function checkKernels(device: Device): Promise<string[]> {
  const module = device.compile(kernelSource);
  const count = 1000;
  const [to, from] = [device.allocate(count * 4), device.allocate(count * 4)];
  device.upload(to, new Float32Array(count).fill(0.5));
  device.upload(
    from,
    Float32Array.from({ length: count }, (_, index) => index),
  );
  const kernel = module.kernel('scale_add');
  device.launch({ kernel, grid: [4, 1, 1], block: 256, arguments: [to, from, count, -3] });
  const scaled = new Float32Array(count);
  await device.download(to, scaled);
  const differences: string[] = [];
  const wrong = scaled.findIndex((value, index) => value !== 0.5 - 3 * index);
  if (wrong >= 0) differences.push(`scale_add: element ${wrong} is ${scaled[wrong]!}`);

  const wide = 20_000;
  const values = device.allocate(wide * 4);
  device.upload(
    values,
    Int32Array.from({ length: wide }, (_, index) => index),
  );
  device.launch({
    kernel: module.kernel('reverse_shared'),
    grid: [1, 1, 1],
    block: 128,
    sharedBytes: wide * 4,
    arguments: [values, wide],
  });
  const reversed = new Int32Array(wide);
  await device.download(values, reversed);
  const misplaced = reversed.findIndex((value, index) => value !== wide - 1 - index);
  if (misplaced >= 0) differences.push(`reverse_shared: element ${misplaced} is ${reversed[misplaced]!}`);

  device.launch({ kernel: module.kernel('where_am_i'), grid: [2, 3, 4], block: 32, arguments: [values] });
  const blocks = new Int32Array(24);
  await device.download(values, blocks);
  const lost = blocks.findIndex(
    (value, index) => value !== (index % 2) * 100 + (Math.floor(index / 2) % 3) * 10 + Math.floor(index / 6),
  );
  if (lost >= 0) differences.push(`where_am_i: block ${lost} says ${blocks[lost]!}`);
  for (const address of [to, from, values]) device.free(address);
  module.unload();
  const again = refusal(() => {
    device.launch({ kernel, grid: [1, 1, 1], block: 1, arguments: [] });
  });
  if (!again.includes('not loaded')) differences.push(`an unloaded kernel: ${again}`);
  return differences;
}

async function checkProducts(device: Device, isAdded: boolean): Promise<string[]> {
  const differences: string[] = [];
  for (const each of productCases()) {
    const difference = await checkProduct(device, each, isAdded).catch((cause: unknown) => String(cause));
    if (difference !== '') differences.push(`${each.name}: ${difference}`);
  }
  return differences;
}

async function checkProduct(device: Device, each: ProductCase, isAdded: boolean): Promise<string> {
  const { type, resultType, inner, scale } = each;
  const left = encode(sampleValues(each.left.length, 1), type);
  const right = encode(sampleValues(each.right.length, 2), type);
  const untouched = encode(new Float32Array(each.result.length).fill(Number.NaN), resultType);
  const added = encode(sampleValues(each.result.length, 3), resultType);
  const addresses: [Address, Address, Address, Address] = [
    device.allocate(left.byteLength),
    device.allocate(right.byteLength),
    device.allocate(untouched.byteLength),
    device.allocate(added.byteLength),
  ];
  try {
    [left, right, untouched, added].forEach((values, index) => {
      device.upload(addresses[index]!, values);
    });
    const [leftAt, rightAt, resultAt, addedAt] = addresses;
    const product = productAt(each, [leftAt, rightAt, resultAt]);
    const addend = addedAt + product.result.address - resultAt;
    device.multiply(isAdded ? { ...product, addend } : product);
    await device.download(addresses[2], untouched);
  } finally {
    for (const address of addresses) device.free(address);
  }
  const found = decode(untouched, resultType);
  const expected = naiveProduct(each, decode(left, type), decode(right, type));
  if (isAdded) decode(added, resultType).forEach((value, index) => (expected[index]! += value));
  const spacing = resultType === 'float32' ? 0 : resultType === 'float16' ? 2 ** -11 : 2 ** -8;
  for (let index = 0; index < expected.length; index++) {
    const allowed = 1e-6 * (scale * inner + 1) + spacing * Math.abs(expected[index]!) + spacing * 1e-3;
    if (
      Number.isNaN(expected[index]!)
        ? Number.isNaN(found[index]!)
        : Math.abs(found[index]! - expected[index]!) <= allowed
    ) {
      continue;
    }
    return `element ${index} is ${found[index]!}, expected ${expected[index]!}`;
  }
  return '';
}

const encode = (values: Float32Array, type: FloatType): Float32Array | Uint16Array =>
  type === 'float32' ? values : encodeHalves(values, type);
const decode = (values: Float32Array | Uint16Array, type: FloatType): Float32Array =>
  values instanceof Float32Array || type === 'float32'
    ? Float32Array.from(values)
    : decodeHalves(values, type);

async function checkEmptyProduct(device: Device): Promise<string[]> {
  const address = device.allocate(12 * elementSize('float32'));
  device.upload(address, new Float32Array(12).fill(1));
  const operand = { address, type: 'float32', rowStride: 3, batchStride: 6 } as const;
  const sides = { left: { ...operand, transposed: false }, right: { ...operand, transposed: false } };
  const sizes = { rows: 2, columns: 2, inner: 0, batch: 2, scale: 1 };
  device.multiply({ ...sizes, ...sides, result: operand });
  device.multiply({ ...sizes, rows: 0, ...sides, result: operand });
  const read = new Float32Array(12);
  await device.download(address, read);
  device.free(address);
  return read.join() === '0,0,1,0,0,1,0,0,1,0,0,1' ? [] : [`read ${read.join()}`];
}

function checkErrors(device: Device): string[] {
  const differences: string[] = [];
  const expectRefusal = (name: string, act: () => unknown, ...parts: string[]): void => {
    const message = refusal(act);
    const missing = parts.filter((part) => !message.includes(part));
    if (missing.length > 0) differences.push(`${name}: "${message}" lacks "${missing.join('", "')}"`);
  };
  const tooMany = device.totalBytes * 4;
  expectRefusal('out of memory', () => device.allocate(tooMany), `no room for ${tooMany} bytes`, 'free');
  const broken = 'extern "C" __global__ void broken(int* at) {\n  int one = 1;\n  at[0] = two;\n}\n';
  expectRefusal('a syntax error', () => device.compile(broken), 'kernels.cu(3)', '"two"');
  const module = device.compile(kernelSource);
  expectRefusal('an unknown kernel', () => module.kernel('nonesuch'), 'no kernel nonesuch');
  const kernel = module.kernel('where_am_i');
  const launch = { kernel, grid: [1, 1, 1], block: 1, arguments: [] } as const;
  expectRefusal(
    'too many threads',
    () => {
      device.launch({ ...launch, block: 5000 });
    },
    'cuLaunchKernel (where_am_i, grid 1 x 1 x 1, 5000 threads',
    'CUDA_ERROR_INVALID_VALUE',
  );
  expectRefusal(
    'too much shared memory',
    () => {
      device.launch({ ...launch, sharedBytes: 1 << 30 });
    },
    'cuFuncSetAttribute',
    'where_am_i',
  );
  module.unload();
  return differences;
}

/** The message of the MistletoeError that it has to throw. */
function refusal(act: () => unknown): string {
  try {
    act();
  } catch (cause) {
    return cause instanceof MistletoeError ? cause.message : `not a MistletoeError: ${String(cause)}`;
  }
  return 'no error';
}
