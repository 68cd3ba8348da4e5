// CUDA C++ as plain C++: what kernels may use of the language and of its built-in functions.
#pragma once
#include "emulated-threads.h"
#include <cmath>
#include <type_traits>
#include <utility>

using std::isfinite, std::isinf, std::isnan;

#define __global__ EXPORTED
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __shared__ static

// Declarations of shared memory are rewritten to these before they get here.
#define EMULATED_STATIC_SHARED(name)         \
  static uint64_t name##_lastBlock;          \
  emulated::undefineShared(&name, sizeof name, name##_lastBlock)
#define EMULATED_DYNAMIC_SHARED(type, name) type* const name = reinterpret_cast<type*>(emulated::sharedMemory)

inline void __syncthreads() {
  emulated::waitForBlock();
  emulated::forgetReads();
}

inline void __syncwarp(unsigned mask = 0xffffffff) {
  emulated::waitForLanes(mask, 0);
  emulated::forgetReads();
}

// Shuffles stay within sections of `width` lanes; a lane whose source lies outside keeps its own value.
template <typename T>
T __shfl_sync(unsigned mask, T value, int source, int width = warpSize) {
  const unsigned lane = threadIdx.x % warpSize;
  return emulated::exchange(mask, value, lane / width * width + (source & (width - 1)));
}

template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = warpSize) {
  const unsigned lane = threadIdx.x % warpSize, source = lane ^ lanes;
  return emulated::exchange(mask, value, source / width > lane / width ? lane : source);
}

template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned lanes, int width = warpSize) {
  const unsigned lane = threadIdx.x % warpSize, source = lane + lanes;
  return emulated::exchange(mask, value, source / width != lane / width ? lane : source);
}

template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned lanes, int width = warpSize) {
  const unsigned lane = threadIdx.x % warpSize;
  return emulated::exchange(mask, value, lane % width < lanes ? lane : lane - lanes);
}

// Threads never run at the same time here, so any addition is atomic.
template <typename T>
T atomicAdd(T* address, std::type_identity_t<T> value) {
  const T before = *address;
  *address = before + value;
  return before;
}

template <typename A, typename B>
std::common_type_t<A, B> min(A a, B b) {
  using Common = std::common_type_t<A, B>;
  if constexpr (std::is_floating_point_v<Common>) return std::fmin(static_cast<Common>(a), static_cast<Common>(b));
  else return static_cast<Common>(b) < static_cast<Common>(a) ? b : a;
}

template <typename A, typename B>
std::common_type_t<A, B> max(A a, B b) {
  using Common = std::common_type_t<A, B>;
  if constexpr (std::is_floating_point_v<Common>) return std::fmax(static_cast<Common>(a), static_cast<Common>(b));
  else return static_cast<Common>(a) < static_cast<Common>(b) ? b : a;
}

template <typename T>
T __ldg(const T* address) {
  return *address;
}

namespace emulated {

template <typename To, typename From>
To castBits(From value) {
  static_assert(sizeof(To) == sizeof(From));
  To bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline float reciprocalRoot(float x) { return 1.0f / std::sqrt(x); }
inline float reciprocal(float x) { return 1.0f / x; }

}  // namespace emulated

// As macros, because some C libraries declare functions of these names that they do not have.
#define __expf expf
#define __logf logf
#define rsqrtf emulated::reciprocalRoot
#define __frsqrt_rn emulated::reciprocalRoot
#define __frcp_rn emulated::reciprocal
#define __fdividef(a, b) ((a) / (b))
#define __int_as_float emulated::castBits<float, int>
#define __uint_as_float emulated::castBits<float, unsigned>
#define __float_as_int emulated::castBits<int, float>
#define __float_as_uint emulated::castBits<unsigned, float>

namespace emulated {

// How arguments arrive: one after the other, 8 bytes each.
template <typename T>
T readArgument(const char* packed, std::size_t index) {
  T value;
  std::memcpy(&value, packed + 8 * index, sizeof value);
  return value;
}

template <typename... A, std::size_t... I>
const char* launch(void (*kernel)(A...), dim3 grid, unsigned threads, unsigned sharedBytes, const char* packed,
                   std::index_sequence<I...>) {
  const auto call = [=] { kernel(readArgument<A>(packed, I)...); };
  const Body body = [](const void* context) { (*static_cast<const decltype(call)*>(context))(); };
  return runGrid(grid, threads, sharedBytes, body, &call);
}

template <typename... A>
const char* launch(void (*kernel)(A...), dim3 grid, unsigned threads, unsigned sharedBytes, const char* packed) {
  return launch(kernel, grid, threads, sharedBytes, packed, std::index_sequence_for<A...>{});
}

// A letter for each parameter: p for a pointer, i for an int.
template <typename... A>
const char* describeParameters(void (*)(A...)) {
  static_assert(((std::is_pointer_v<A> || (std::is_integral_v<A> && sizeof(A) == 4)) && ...),
                "kernels take pointers and ints");
  static const char letters[] = {(std::is_pointer_v<A> ? 'p' : 'i')..., '\0'};
  return letters;
}

}  // namespace emulated

#define EMULATED_KERNEL(name)                                                                                 \
  extern "C" __global__ const char* parameters_##name() { return emulated::describeParameters(name); }       \
  extern "C" __global__ const char* launch_##name(unsigned x, unsigned y, unsigned z, unsigned threads,      \
                                                  unsigned sharedBytes, const char* packed) {                \
    return emulated::launch(name, dim3{x, y, z}, threads, sharedBytes, packed);                              \
  }
