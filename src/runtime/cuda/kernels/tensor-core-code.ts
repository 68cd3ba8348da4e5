/**
 * Tensor cores in CUDA code: 16 x 8 tiles with TF32 inputs (10 mantissa bits) and float32 sums. Without tensor cores,
 * lanes exchange values by shuffles.
 * Lane 4 g + t holds rows g and g + 8 of the left side at places t and t + 4, column g of the right side at the same
 * places, and of the sums rows g and g + 8 at columns 2 t and 2 t + 1. The order of places does not matter.
 */

/** 16 places of halves, two per word: lane 4 g + t holds places 2 t, 2 t + 1 and 2 t + 8, 2 t + 9. */
const halfProduct = (name: string, type: string, convert: string): string => `
__device__ void ${name}(float (&sums)[4], const unsigned (&left)[4], unsigned right0, unsigned right1) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.${type}.${type}.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right0), "r"(right1));
#else
  const int lane = threadIdx.x % 32;
  for (int place = 0; place < 16; place++) {
    const int word = place / 8;
    const int row = lane / 4 * 4 + place % 8 / 2;
    const int column = lane % 4 * 8 + place % 8 / 2;
    const unsigned upper = __shfl_sync(0xffffffffu, left[2 * word], row);
    const unsigned lower = __shfl_sync(0xffffffffu, left[2 * word + 1], row);
    const unsigned first = __shfl_sync(0xffffffffu, word == 0 ? right0 : right1, column);
    const unsigned second = __shfl_sync(0xffffffffu, word == 0 ? right0 : right1, column + 4);
    const int shift = place % 2 * 16;
    const float a = ${convert}((unsigned short)(upper >> shift));
    const float b = ${convert}((unsigned short)(lower >> shift));
    const float c = ${convert}((unsigned short)(first >> shift));
    const float d = ${convert}((unsigned short)(second >> shift));
    sums[0] += a * c;
    sums[1] += a * d;
    sums[2] += b * c;
    sums[3] += b * d;
  }
#endif
}
`;

export const tensorCoreCode = `
// To the nearest that a tensor core reads.
__device__ float toTensorCore(float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  unsigned rounded;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(value));
  return __uint_as_float(rounded);
#else
  Bits wide;
  wide.value = value;
  if ((wide.bits & 0x7f800000u) == 0x7f800000u) return value;
  wide.bits = (wide.bits + 0x1000u) & 0xffffe000u;
  return wide.value;
#endif
}

// sums[0 1] of row g, sums[2 3] of row g + 8; left of rows g and g + 8 at the first place, then at the second.
__device__ void multiplyTile(float (&sums)[4], float left0, float left1, float left2, float left3, float right0, float right1) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(__float_as_uint(left0)), "r"(__float_as_uint(left1)), "r"(__float_as_uint(left2)), "r"(__float_as_uint(left3)),
        "r"(__float_as_uint(right0)), "r"(__float_as_uint(right1)));
#else
  const int lane = threadIdx.x % 32;
  for (int place = 0; place < 8; place++) {
    const int row = lane / 4 * 4 + place % 4;
    const int column = lane % 4 * 8 + place % 4;
    const float upper = __shfl_sync(0xffffffffu, place < 4 ? left0 : left2, row);
    const float lower = __shfl_sync(0xffffffffu, place < 4 ? left1 : left3, row);
    const float first = __shfl_sync(0xffffffffu, place < 4 ? right0 : right1, column);
    const float second = __shfl_sync(0xffffffffu, place < 4 ? right0 : right1, column + 4);
    sums[0] += upper * first;
    sums[1] += upper * second;
    sums[2] += lower * first;
    sums[3] += lower * second;
  }
#endif
}

// Of two words, the halves in front and those behind.
__device__ unsigned lowHalves(unsigned a, unsigned b) { return (a & 0xffffu) | (b << 16); }
__device__ unsigned highHalves(unsigned a, unsigned b) { return (a >> 16) | (b & 0xffff0000u); }
${halfProduct('multiplyBfloat16', 'bf16', 'fromBfloat16')}${halfProduct('multiplyFloat16', 'f16', 'fromFloat16')}`;
