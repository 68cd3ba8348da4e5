/** Sums and counts over a block of threads, and the order of floats, for kernels that decide by them. */

/** A sum over all threads of a block, the same in every thread: each warp adds the parts of all warps. */
const writeBlockSum = (name: string, type: string, zero: string): string =>
  `
__device__ ${type} ${name}(${type} value) {
  __shared__ ${type} parts[32];
  for (int step = 16; step > 0; step >>= 1) value += __shfl_xor_sync(0xffffffffu, value, step);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  ${type} total = threadIdx.x % 32 < blockDim.x / 32 ? parts[threadIdx.x % 32] : ${zero};
  for (int step = 16; step > 0; step >>= 1) total += __shfl_xor_sync(0xffffffffu, total, step);
  __syncthreads();
  return total;
}
`.trimStart();

export const blockCode = `
// Unsigned numbers in the order of floats; both zeros are one.
__device__ unsigned orderOf(float value) {
  const unsigned bits = __float_as_uint(value + 0.0f);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

__device__ float valueOf(unsigned order) {
  return __uint_as_float((order & 0x80000000u) != 0 ? order & 0x7fffffffu : ~order);
}

${writeBlockSum('blockSum', 'float', '0.0f')}
${writeBlockSum('blockCount', 'int', '0')}
${writeBlockSum('blockSumOfDoubles', 'double', '0.0')}`;
