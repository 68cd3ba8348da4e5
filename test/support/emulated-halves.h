// bfloat16 and float16 as CUDA's headers name them. Both round to the nearest value, at a tie to the even one.
#pragma once
#include "emulated-math.h"

struct __nv_bfloat16 {
  uint16_t bits;
};

struct __half {
  uint16_t bits;
};

using nv_bfloat16 = __nv_bfloat16;
using half = __half;

// What CUDA stores for any NaN, in both types.
constexpr uint16_t emulatedHalfNan = 0x7fff;

inline __nv_bfloat16 __float2bfloat16(float value) {
  if (__builtin_isnan(value)) return {emulatedHalfNan};
  uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return {static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)};
}

inline float __bfloat162float(__nv_bfloat16 half) {
  const uint32_t bits = static_cast<uint32_t>(half.bits) << 16;
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

inline __half __float2half(float value) {
  if (__builtin_isnan(value)) return {emulatedHalfNan};
  const int sign = __builtin_signbit(value) ? 0x8000 : 0;
  const float magnitude = fabsf(value);
  if (magnitude >= 65520) return {static_cast<uint16_t>(sign | 0x7c00)};
  // Below 2^-14 the steps stay as they are (subnormal), so that exponent counts for all smaller ones too.
  const int exponent = magnitude < 0x1p-14f ? -14 : ilogbf(magnitude);
  const int steps = static_cast<int>(nearbyintf(ldexpf(magnitude, 10 - exponent)));
  // Of a normal number the leading one is among the steps; a carry into the exponent is right as it is.
  return {static_cast<uint16_t>(sign | (((exponent + 14) << 10) + steps))};
}

inline float __half2float(__half half) {
  const float sign = (half.bits & 0x8000) == 0 ? 1.0f : -1.0f;
  const int exponent = (half.bits >> 10) & 0x1f;
  const int fraction = half.bits & 0x3ff;
  if (exponent == 0x1f) return fraction == 0 ? sign * __builtin_inff() : __builtin_nanf("");
  return exponent == 0 ? sign * ldexpf(static_cast<float>(fraction), -24)
                       : sign * ldexpf(static_cast<float>(fraction + 1024), exponent - 25);
}
