// The single-precision functions that kernels may call, declared one by one. Headers of the C++ library take longer to
// parse than a kernel takes to compile, and tests compile hundreds of kernels, so no header that kernels see includes one.
#pragma once
#include <stdint.h>  // also defines __GLIBC__

#ifdef __GLIBC__
#define EMULATED_NOTHROW noexcept
#else
#define EMULATED_NOTHROW
#endif

#define EMULATED_FUNCTION(name) float name(float) EMULATED_NOTHROW;

extern "C" {
EMULATED_FUNCTION(ceilf) EMULATED_FUNCTION(floorf) EMULATED_FUNCTION(nearbyintf) EMULATED_FUNCTION(rintf)
EMULATED_FUNCTION(roundf) EMULATED_FUNCTION(truncf) EMULATED_FUNCTION(fabsf) EMULATED_FUNCTION(sqrtf)
EMULATED_FUNCTION(cosf) EMULATED_FUNCTION(sinf) EMULATED_FUNCTION(tanhf) EMULATED_FUNCTION(erff)
EMULATED_FUNCTION(exp2f) EMULATED_FUNCTION(expf) EMULATED_FUNCTION(expm1f)
EMULATED_FUNCTION(log1pf) EMULATED_FUNCTION(log2f) EMULATED_FUNCTION(logf)
float fmaf(float, float, float) EMULATED_NOTHROW;
float fmaxf(float, float) EMULATED_NOTHROW;
float fminf(float, float) EMULATED_NOTHROW;
float fmodf(float, float) EMULATED_NOTHROW;
float powf(float, float) EMULATED_NOTHROW;
float ldexpf(float, int) EMULATED_NOTHROW;
int ilogbf(float) EMULATED_NOTHROW;
}
