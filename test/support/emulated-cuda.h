// CUDA C++ as plain C++: what kernels may use of the language and of its built-in functions.
#pragma once
#include "emulated-math.h"
#include "emulated-instructions.h"
#include "emulated-threads.h"

#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
inline bool isnan(float x) { return __builtin_isnan(x); }
inline bool isinf(float x) { return __builtin_isinf(x); }
inline bool isfinite(float x) { return __builtin_isfinite(x); }

#define __global__
#define __device__ static  // unused helpers are then not compiled
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __shared__ static

struct alignas(8) uint2 {
  unsigned x, y;
};

struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

struct alignas(16) int4 {
  int x, y, z, w;
};

struct alignas(16) float4 {
  float x, y, z, w;
};

namespace emulated {

// What <type_traits> would provide.
template <typename T>
struct Exactly {
  using Type = T;
};
template <typename A, typename B>
using Common = decltype(true ? A() : B());
template <typename A, typename B>
constexpr bool isSame = false;
template <typename T>
constexpr bool isSame<T, T> = true;
template <typename T>
constexpr bool isPointer = false;
template <typename T>
constexpr bool isPointer<T*> = true;

}  // namespace emulated

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

// Blocks run one after the other: what one has written, the next one sees.
inline void __threadfence() { emulated::forgetReads(); }

// Threads never run at the same time here, so any addition is atomic.
template <typename T>
T atomicAdd(T* address, typename emulated::Exactly<T>::Type value) {
  const T before = *address;
  *address = before + value;
  return before;
}

template <typename A, typename B>
emulated::Common<A, B> min(A a, B b) {
  using Common = emulated::Common<A, B>;
  if constexpr (emulated::isSame<Common, float>) return fminf(a, b);
  else return static_cast<Common>(b) < static_cast<Common>(a) ? b : a;
}

template <typename A, typename B>
emulated::Common<A, B> max(A a, B b) {
  using Common = emulated::Common<A, B>;
  if constexpr (emulated::isSame<Common, float>) return fmaxf(a, b);
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
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline float reciprocalRoot(float x) { return 1.0f / sqrtf(x); }
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
#define __cvta_generic_to_global(pointer) reinterpret_cast<size_t>(pointer)
#define __cvta_global_to_generic(address) reinterpret_cast<void*>(address)
#define __float_as_uint emulated::castBits<unsigned, float>

namespace emulated {

// Arguments arrive one after the other, 8 bytes each. A list in braces is read from left to right.
struct ArgumentReader {
  const char* packed;

  template <typename T>
  T next() {
    T value;
    __builtin_memcpy(&value, packed, sizeof value);
    packed += 8;
    return value;
  }
};

template <typename... A>
struct Call {
  void (*kernel)(A...);
  const char* packed;

  static void run(const void* context) {
    const Call& call = *static_cast<const Call*>(context);
    ArgumentReader reader{call.packed};
    Invocation{call.kernel, reader.next<A>()...};
  }

  struct Invocation {
    Invocation(void (*kernel)(A...), A... arguments) { kernel(arguments...); }
  };
};

template <typename... A>
const char* launch(void (*kernel)(A...), dim3 grid, unsigned threads, unsigned sharedBytes, const char* packed) {
  const Call<A...> call{kernel, packed};
  return runGrid(grid, threads, sharedBytes, Call<A...>::run, &call);
}

// A letter for each parameter: p for a pointer, i for an int.
template <typename... A>
const char* describeParameters(void (*)(A...)) {
  static_assert(((isPointer<A> || isSame<A, int> || isSame<A, unsigned>) && ...), "kernels take pointers and ints");
  static const char letters[] = {(isPointer<A> ? 'p' : 'i')..., '\0'};
  return letters;
}

}  // namespace emulated

#define EMULATED_KERNEL(key)                                                                                  \
  extern "C" EXPORTED const char* parameters_##key() { return emulated::describeParameters(kernel_##key); }   \
  extern "C" EXPORTED const char* launch_##key(unsigned x, unsigned y, unsigned z, unsigned threads,          \
                                               unsigned sharedBytes, const char* packed) {                    \
    return emulated::launch(kernel_##key, dim3{x, y, z}, threads, sharedBytes, packed);                       \
  }
