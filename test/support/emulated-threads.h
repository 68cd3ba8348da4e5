// The threads of a block, as kernels see them: who they are, and where they wait for each other.
#pragma once
#include <stddef.h>
#include <stdint.h>

#define EXPORTED __attribute__((visibility("default")))

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};

extern EXPORTED dim3 gridDim, blockDim, blockIdx, threadIdx;
constexpr int warpSize = 32;

namespace emulated {

constexpr size_t mostSharedBytes = 48 * 1024;
constexpr size_t sharedGuardBytes = 4096;

// Of the block that runs: there is only one at a time.
extern EXPORTED unsigned char sharedMemory[mostSharedBytes + sharedGuardBytes];
extern EXPORTED uint64_t blockSerial;

using Body = void (*)(const void* context);

// Calls the body once for each thread of each block. What went wrong, or nothing.
EXPORTED const char* runGrid(dim3 grid, unsigned threads, size_t sharedBytes, Body body, const void* context);

EXPORTED void waitForBlock();
// Until all lanes of the mask have come and offered a value each.
EXPORTED void waitForLanes(unsigned mask, uint64_t offered);
// What a lane offered when this thread's warp last met; all bits are set where that is undefined on the device.
EXPORTED uint64_t valueOffered(unsigned mask, unsigned lane);

// Other threads have written while one waited: nothing read before may be kept in registers.
[[gnu::always_inline]] inline void forgetReads() { asm volatile("" ::: "memory"); }

// Static shared memory is one variable for all blocks, so the first thread of each block that comes by undefines it.
inline void undefineShared(void* memory, size_t bytes, uint64_t& lastBlock) {
  if (lastBlock == blockSerial) return;
  lastBlock = blockSerial;
  __builtin_memset(memory, 0xff, bytes);
}

template <typename T>
T exchange(unsigned mask, T value, unsigned sourceLane) {
  static_assert(sizeof(T) <= sizeof(uint64_t), "shuffles pass values of 8 bytes at most");
  uint64_t bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(T));
  waitForLanes(mask, bits);
  forgetReads();
  bits = valueOffered(mask, sourceLane);
  __builtin_memcpy(&value, &bits, sizeof(T));
  return value;
}

}  // namespace emulated
