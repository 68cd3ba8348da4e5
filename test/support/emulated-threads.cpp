// The threads of a block as fibers on one thread of the processor: they run one after the other, always in the same order,
// and change only where one of them waits for others. A fiber runs threads as plain calls until one of them waits; then
// another fiber goes on with the rest. So a kernel without barriers costs no more than its calls.
//
// Contexts are entered once and then left and resumed by jumps, because swapcontext makes a system call at each change. GCC
// has jumps that save no more than they must, which take half the time.
#include "emulated-threads.h"
#include <cstring>
#include <ucontext.h>

#if defined(__GNUC__) && !defined(__clang__)
using JumpPoint = void* [5];
#define SET_JUMP(point) __builtin_setjmp(point)
#define LONG_JUMP(point) __builtin_longjmp(point, 1)
#else
#include <csetjmp>
using JumpPoint = jmp_buf;
#define SET_JUMP(point) _setjmp(point)
#define LONG_JUMP(point) _longjmp(point, 1)
#endif

dim3 gridDim, blockDim, blockIdx;
dim3 threadIdx{0, 0, 0};

namespace emulated {

alignas(256) unsigned char sharedMemory[mostSharedBytes + sharedGuardBytes];
uint64_t blockSerial = 0;

namespace {

constexpr std::size_t stackBytes = 128 * 1024;
constexpr unsigned maxThreads = 1024;
constexpr unsigned char sharedGuard = 0xa5;

const char* const deadlock = "some of its threads wait at a barrier or a shuffle that others never reach";
const char* const sharedOverrun = "it wrote past the end of its dynamic shared memory";

struct Fiber {
  char* const stack = new char[stackBytes];
  ucontext_t entry{};
  JumpPoint resumption;
  bool entered = false;
  unsigned thread = 0;

  ~Fiber() { delete[] stack; }
};

enum class State { running, atBlockBarrier, atWarpBarrier, finished };

struct Thread {
  State state = State::running;
  Fiber* fiber = nullptr;
  unsigned mask = 0;     // the lanes that it waits for
  uint64_t offered = 0;  // to the other lanes
};

struct Warp {
  uint64_t exchanged[warpSize];  // what the lanes offered when they last met
};

struct Block {
  Body body = nullptr;
  const void* context = nullptr;
  unsigned size = 0;
  unsigned next = 0;  // the first thread that has not begun
  unsigned turn = 0;  // the thread that runs, once all have begun
  Thread threads[maxThreads];
  Warp warps[maxThreads / warpSize];

  Thread* begin() { return threads; }
  Thread* end() { return threads + size; }
};

// Each thread of a block may need a fiber of its own.
struct FiberList {
  Fiber* fibers[maxThreads];
  unsigned size = 0;

  void add(Fiber* fiber) { fibers[size++] = fiber; }
  Fiber* take() { return fibers[--size]; }
};

Block block;
FiberList allFibers, idleFibers;
Fiber* current = nullptr;
JumpPoint scheduler;

// A function of its own, because GCC allows no jump in a function that sets a jump point.
[[gnu::noinline, noreturn]] void jumpTo(JumpPoint& point) { LONG_JUMP(point); }

// To the next thread that can go on, or to the scheduler if all others wait or have yet to begin.
[[gnu::noinline]] void suspend() {
  if (SET_JUMP(current->resumption) != 0) return;
  while (++block.turn < block.size) {
    const Thread& thread = block.threads[block.turn];
    if (thread.state != State::running) continue;
    current = thread.fiber;
    threadIdx.x = block.turn;
    jumpTo(current->resumption);
  }
  jumpTo(scheduler);
}

void runThreads() {
  for (;;) {
    while (block.next < block.size) {
      const unsigned thread = block.next++;
      current->thread = thread;
      threadIdx.x = thread;
      block.body(block.context);
      block.threads[thread].state = State::finished;
    }
    idleFibers.add(current);
    suspend();
  }
}

Fiber* takeFiber() {
  if (idleFibers.size > 0) return idleFibers.take();
  Fiber* const fiber = new Fiber;
  allFibers.add(fiber);
  getcontext(&fiber->entry);
  fiber->entry.uc_stack.ss_sp = fiber->stack;
  fiber->entry.uc_stack.ss_size = stackBytes;
  makecontext(&fiber->entry, runThreads, 0);
  return fiber;
}

void discardFibers() {
  idleFibers.size = 0;
  while (allFibers.size > 0) delete allFibers.take();
}

// Returns when all threads wait or have finished, or another has to begin.
[[gnu::noinline]] void resume(Fiber* fiber) {
  current = fiber;
  if (SET_JUMP(scheduler) != 0) return;
  if (fiber->entered) jumpTo(fiber->resumption);
  fiber->entered = true;
  setcontext(&fiber->entry);
}

void resumeRunning() {
  block.turn = 0;
  while (block.threads[block.turn].state != State::running) block.turn++;
  threadIdx.x = block.turn;
  resume(block.threads[block.turn].fiber);
}

void waitAt(State barrier, unsigned mask, uint64_t offered) {
  block.threads[current->thread] = {barrier, current, mask, offered};
  suspend();
}

// A mask whose lanes have all come; those that have finished are excused, as on the device.
bool haveMet(std::size_t firstThread, unsigned mask) {
  for (unsigned lane = 0; lane < warpSize; lane++) {
    if ((mask >> lane & 1) == 0 || firstThread + lane >= block.size) continue;
    const Thread& thread = block.threads[firstThread + lane];
    if (thread.state == State::finished) continue;
    if (thread.state != State::atWarpBarrier || thread.mask != mask) return false;
  }
  return true;
}

// Values pass at the moment of release, so that a lane that runs ahead cannot overwrite what others have yet to read.
void releaseLanes(std::size_t firstThread, unsigned mask) {
  for (unsigned lane = 0; lane < warpSize; lane++) {
    if ((mask >> lane & 1) == 0) continue;
    uint64_t& exchanged = block.warps[firstThread / warpSize].exchanged[lane];
    exchanged = ~uint64_t{0};
    if (firstThread + lane >= block.size) continue;
    Thread& thread = block.threads[firstThread + lane];
    if (thread.state == State::finished) continue;
    exchanged = thread.offered;
    thread.state = State::running;
  }
}

bool releaseWarps() {
  bool released = false;
  for (std::size_t index = 0; index < block.size; index++) {
    const Thread& thread = block.threads[index];
    const std::size_t firstThread = index - index % warpSize;
    if (thread.state != State::atWarpBarrier || !haveMet(firstThread, thread.mask)) continue;
    releaseLanes(firstThread, thread.mask);
    released = true;
  }
  return released;
}

bool releaseBlock() {
  bool released = false;
  for (const Thread& thread : block)
    if (thread.state == State::atWarpBarrier) return false;
  for (Thread& thread : block) {
    if (thread.state != State::atBlockBarrier) continue;
    thread.state = State::running;
    released = true;
  }
  return released;
}

bool isBlockFinished() {
  for (const Thread& thread : block)
    if (thread.state != State::finished) return false;
  return true;
}

// What went wrong, or nothing.
const char* runBlock(unsigned threads) {
  blockSerial++;
  block.next = 0;
  block.size = block.turn = threads;
  for (Thread& thread : block) thread = {};
  while (block.next < threads) resume(takeFiber());
  while (!isBlockFinished()) {
    if (!releaseWarps() && !releaseBlock()) {
      discardFibers();
      return deadlock;
    }
    resumeRunning();
  }
  return nullptr;
}

bool isSharedGuardIntact(std::size_t sharedBytes) {
  for (std::size_t index = sharedBytes; index < sharedBytes + sharedGuardBytes; index++)
    if (sharedMemory[index] != sharedGuard) return false;
  return true;
}

}  // namespace

// Blocks run one after the other; what shared memory holds at the beginning of one is undefined.
const char* runGrid(dim3 grid, unsigned threads, std::size_t sharedBytes, Body body, const void* context) {
  gridDim = grid;
  blockDim = {threads, 1, 1};
  block.body = body;
  block.context = context;
  std::memset(sharedMemory + sharedBytes, sharedGuard, sharedGuardBytes);
  for (blockIdx.z = 0; blockIdx.z < grid.z; blockIdx.z++)
    for (blockIdx.y = 0; blockIdx.y < grid.y; blockIdx.y++)
      for (blockIdx.x = 0; blockIdx.x < grid.x; blockIdx.x++) {
        std::memset(sharedMemory, 0xff, sharedBytes);
        if (const char* failure = runBlock(threads)) return failure;
      }
  return isSharedGuardIntact(sharedBytes) ? nullptr : sharedOverrun;
}

void waitForBlock() { waitAt(State::atBlockBarrier, 0, 0); }

void waitForLanes(unsigned mask, uint64_t offered) { waitAt(State::atWarpBarrier, mask, offered); }

uint64_t valueOffered(unsigned mask, unsigned lane) {
  const bool takesPart = mask >> lane & 1;
  return takesPart ? block.warps[threadIdx.x / warpSize].exchanged[lane] : ~uint64_t{0};
}

}  // namespace emulated
