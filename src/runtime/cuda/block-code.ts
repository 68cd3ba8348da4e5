/** Counts and exact sums over a block of threads, and the order of floats, for kernels that decide by them. */
export const blockCode = `
// Unsigned numbers in the order of floats; both zeros are one.
__device__ unsigned orderOf(float value) {
  const unsigned bits = __float_as_uint(value + 0.0f);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

__device__ float valueOf(unsigned order) {
  return __uint_as_float((order & 0x80000000u) != 0 ? order & 0x7fffffffu : ~order);
}

__device__ int blockCount(int value) {
  __shared__ int counts[32];
  for (int step = 16; step > 0; step >>= 1) value += __shfl_xor_sync(0xffffffffu, value, step);
  if (threadIdx.x % 32 == 0) counts[threadIdx.x / 32] = value;
  __syncthreads();
  int total = threadIdx.x % 32 < blockDim.x / 32 ? counts[threadIdx.x % 32] : 0;
  for (int step = 16; step > 0; step >>= 1) total += __shfl_xor_sync(0xffffffffu, total, step);
  __syncthreads();
  return total;
}

__device__ double blockSumOfDoubles(double value) {
  __shared__ double sums[32];
  for (int step = 16; step > 0; step >>= 1) value += __shfl_xor_sync(0xffffffffu, value, step);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
  __syncthreads();
  double total = threadIdx.x % 32 < blockDim.x / 32 ? sums[threadIdx.x % 32] : 0.0;
  for (int step = 16; step > 0; step >>= 1) total += __shfl_xor_sync(0xffffffffu, total, step);
  __syncthreads();
  return total;
}
`;
