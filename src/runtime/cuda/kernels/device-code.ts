/**
 * Tensor cores in CUDA code: 16 x 8 tiles with TF32 inputs (10 mantissa bits) and float32 sums. Without tensor cores,
 * lanes exchange values by shuffles.
 * Lane 4 g + t holds rows g and g + 8 of the left side at places t and t + 4, column g of the right side at the same
 * places, and of the sums rows g and g + 8 at columns 2 t and 2 t + 1. The order of places does not matter.
 * Halves have 16 places, two per word: lane 4 g + t holds places 2 t, 2 t + 1 and 2 t + 8, 2 t + 9.
 */
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

/** Half types in CUDA code by bits, because NVRTC comes without headers. Rounds to nearest even. */
const packing = (name: string, type: string): string => `
__device__ unsigned pack${name}(float first, float second) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  unsigned packed;
  asm("cvt.rn.${type}x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(second), "f"(first));
  return packed;
#else
  return (unsigned)to${name}(first) | (unsigned)to${name}(second) << 16;
#endif
}

__device__ float4 widen${name}(uint2 four) {
  return float4{from${name}((unsigned short)four.x), from${name}((unsigned short)(four.x >> 16)),
                from${name}((unsigned short)four.y), from${name}((unsigned short)(four.y >> 16))};
}

__device__ float4 round${name}(float4 x) {
  return widen${name}(uint2{pack${name}(x.x, x.y), pack${name}(x.z, x.w)});
}
`;

export const halfCode = `
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
#ifndef NAN
#define NAN __int_as_float(0x7fc00000)
#endif

union Bits { float value; unsigned bits; };

__device__ float fromBfloat16(unsigned short half) {
  Bits wide;
  wide.bits = (unsigned)half << 16;
  return wide.value;
}

__device__ unsigned short toBfloat16(float value) {
  Bits wide;
  wide.value = value;
  if ((wide.bits & 0x7fffffffu) > 0x7f800000u) return (unsigned short)((wide.bits >> 16) | 0x40u);
  return (unsigned short)((wide.bits + 0x7fffu + ((wide.bits >> 16) & 1u)) >> 16);
}

__device__ float fromFloat16(unsigned short half) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
  return value;
#else
  const unsigned sign = (unsigned)(half & 0x8000u) << 16;
  const unsigned exponent = (half >> 10) & 0x1fu;
  const unsigned fraction = half & 0x3ffu;
  Bits wide;
  if (exponent == 0x1fu) wide.bits = sign | 0x7f800000u | (fraction << 13);
  else if (exponent != 0u) wide.bits = sign | ((exponent + 112u) << 23) | (fraction << 13);
  else {
    wide.value = (float)fraction * 5.9604644775390625e-8f; // 2 to the -24
    wide.bits |= sign;
  }
  return wide.value;
#endif
}

__device__ unsigned short toFloat16(float value) {
  Bits wide;
  wide.value = value;
  const unsigned sign = (wide.bits >> 16) & 0x8000u;
  const unsigned size = wide.bits & 0x7fffffffu;
  if (size > 0x7f800000u) return (unsigned short)(sign | 0x7e00u | ((size >> 13) & 0x3ffu));
  if (size >= 0x477ff000u) return (unsigned short)(sign | 0x7c00u); // rounds to more than the largest
  if (size < 0x38800000u) {
    // Below the normal numbers: whole multiples of 2 to the -24.
    Bits tiny;
    tiny.bits = size;
    const float scaled = tiny.value * 16777216.0f;
    unsigned whole = (unsigned)scaled;
    const float rest = scaled - (float)whole;
    if (rest > 0.5f || (rest == 0.5f && (whole & 1u) != 0u)) whole += 1u;
    return (unsigned short)(sign | whole);
  }
  const unsigned rebased = size - 0x38000000u;
  return (unsigned short)(sign | ((rebased + 0xfffu + ((rebased >> 13) & 1u)) >> 13));
}

// Two values as halves in one word, the first in front.
${packing('Bfloat16', 'bf16')}${packing('Float16', 'f16')}`;
