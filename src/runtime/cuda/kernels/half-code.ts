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
