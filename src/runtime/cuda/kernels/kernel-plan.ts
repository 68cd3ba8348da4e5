/** Kernels of a schedule and what they share. */
import type { Dimension } from '../../../graph/dimension.js';
import { type FindOperand, ElementCode } from './element-code.js';
import { halfCode, tensorCoreCode } from './device-code.js';
import { type KernelOperand, KernelText } from './kernel-text.js';

/** Sum over a block, the same in every thread. */
const writeBlockSum = (name: string, type: string, zero: string): string =>
  `
__device__ ${type} ${name}(${type} value) {
  __shared__ ${type} parts[32];
  for (int step = 16; step > 0; step >>= 1) value += __shfl_xor_sync(0xffffffffu, value, step);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  ${type} total = threadIdx.x % 32 < blockDim.x / 32 ? parts[threadIdx.x % 32] : ${zero};
  for (int step = 16; step > 0; step >>= 1) total += __shfl_xor_sync(0xffffffffu, total, step);
  __syncthreads();
  return total;
}
`.trimStart();

const blockCode = `
// Unsigned numbers in the order of floats; both zeros are one.
__device__ unsigned orderOf(float value) {
  const unsigned bits = __float_as_uint(value + 0.0f);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

__device__ float valueOf(unsigned order) {
  return __uint_as_float((order & 0x80000000u) != 0 ? order & 0x7fffffffu : ~order);
}

${writeBlockSum('blockSum', 'float', '0.0f')}
${writeBlockSum('blockCount', 'int', '0')}
${writeBlockSum('blockSumOfDoubles', 'double', '0.0')}`;

/** A kernel without a name: equal texts are shared. */
export interface KernelPlan {
  readonly write: (name: string) => string;
  /** In the order of its parameters after the first, which holds the symbols' values. */
  readonly operands: readonly KernelOperand[];
  readonly symbols: readonly string[];
  readonly threads: ThreadNeed;
}

export type ThreadNeed =
  | {
      readonly kind: 'elements';
      readonly count: Dimension;
      /** Elements per thread; default 1. */
      readonly each?: number | undefined;
    }
  | { readonly kind: 'rows'; readonly count: Dimension; readonly width: Dimension }
  | {
      readonly kind: 'blocks';
      readonly count: Dimension;
      readonly block: number;
      /** Multiplies the blocks: one per `each` of `length`, up to `most`. */
      readonly parts?:
        | { readonly length: Dimension; readonly each: number; readonly most: number }
        | undefined;
    };

/** The compiler drops unused helpers. */
export const kernelPrelude = `${halfCode}${tensorCoreCode}${blockCode}

// A kernel starts while the one before it still runs, lets the next one start, and waits here for what it reads. The
// pointers pass through, so that no load moves before the wait.
template <typename Pointer> __device__ void passThrough(Pointer& pointer) {
#if defined(__CUDA_ARCH__)
  size_t address = __cvta_generic_to_global(pointer);
  asm volatile("" : "+l"(address));
  pointer = (Pointer)__cvta_global_to_generic(address);
#endif
}

template <typename... Pointers> __device__ void waitForEarlier(Pointers&... pointers) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" : : : "memory");
  (passThrough(pointers), ...);
#endif
}

// What is read only once goes past the first cache, where what is read often stays.
__device__ uint4 loadOnce(const uint4* from) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  uint4 value;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w) : "l"(from));
  return value;
#else
  return *from;
#endif
}

// Starts at once, even where the compiler would rather wait with it.
__device__ float4 readAhead(const float4* from) {
  const uint4 words = loadOnce((const uint4*)from);
  return float4{__uint_as_float(words.x), __uint_as_float(words.y), __uint_as_float(words.z), __uint_as_float(words.w)};
}

__device__ uint2 readAhead(const uint2* from) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  uint2 value;
  asm volatile("ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];" : "=r"(value.x), "=r"(value.y) : "l"(from));
  return value;
#else
  return *from;
#endif
}

// What another block wrote, past the first cache, which may hold something older.
__device__ float readFresh(const float* from) { return *(const volatile float*)from; }

// Lanes 4 apart give each other what they loaded of the other's line: then the first is from the front of the own line.
__device__ void exchange(uint4& first, uint4& second, bool isOdd) {
  const uint4 sent = isOdd ? first : second;
  const uint4 got = {__shfl_xor_sync(0xffffffffu, sent.x, 4), __shfl_xor_sync(0xffffffffu, sent.y, 4),
                     __shfl_xor_sync(0xffffffffu, sent.z, 4), __shfl_xor_sync(0xffffffffu, sent.w, 4)};
  if (isOdd) first = got; else second = got;
}

// Parts of attention, joined in their order: one that sees nothing changes nothing.
struct Joined {
  float top = -INFINITY;
  float powers = 0.0f;
  float mixture = 0.0f;
};

__device__ void joinPart(Joined& joined, float largest, float powers, float mixture) {
  const float higher = fmaxf(joined.top, largest);
  const float zero = higher == -INFINITY ? 0.0f : higher;
  const float before = expf(joined.top - zero);
  const float now = expf(largest - zero);
  joined.powers = fmaf(powers, now, joined.powers * before);
  joined.mixture = fmaf(mixture, now, joined.mixture * before);
  joined.top = higher;
}

// The largest of all threads of a block, the same in every thread.
__device__ float blockMaximum(float value) {
  __shared__ float parts[32];
  for (int step = 16; step > 0; step >>= 1) value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, step));
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  float largest = threadIdx.x % 32 < blockDim.x / 32 ? parts[threadIdx.x % 32] : -INFINITY;
  for (int step = 16; step > 0; step >>= 1) largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, step));
  __syncthreads();
  return largest;
}

// Whether (a, i) comes before (b, j): the larger value, at a tie the lower index.
__device__ bool comesBefore(float a, int i, float b, int j) { return a > b || (a == b && i < j); }

// The first of all threads' pairs, the same in every thread.
__device__ void blockFirst(float& value, int& index) {
  __shared__ float values[33];
  __shared__ int indices[33];
  for (int step = 16; step > 0; step >>= 1) {
    const float other = __shfl_xor_sync(0xffffffffu, value, step);
    const int otherIndex = __shfl_xor_sync(0xffffffffu, index, step);
    if (comesBefore(other, otherIndex, value, index)) { value = other; index = otherIndex; }
  }
  if (threadIdx.x % 32 == 0) { values[threadIdx.x / 32] = value; indices[threadIdx.x / 32] = index; }
  __syncthreads();
  if (threadIdx.x == 0) {
    int best = 0;
    for (int warp = 1; warp < blockDim.x / 32; warp++)
      if (comesBefore(values[warp], indices[warp], values[best], indices[best])) best = warp;
    values[32] = values[best];
    indices[32] = indices[best];
  }
  __syncthreads();
  value = values[32];
  index = indices[32];
  __syncthreads();
}
`;

export interface Writing {
  readonly text: KernelText;
  readonly code: ElementCode;
  readonly result: KernelOperand;
}

/** @param bounds max threads per block and min blocks per processor, for the register limit */
export function writeKernel(
  result: KernelOperand,
  find: FindOperand,
  threads: ThreadNeed,
  write: (writing: Writing) => void,
  ...bounds: readonly number[]
): KernelPlan {
  const writeText = (text: KernelText): void => {
    write({ text, code: new ElementCode(text, find), result });
  };
  return finishKernel([result], threads, writeText, ...bounds);
}

/** Of a block that computes a row. Kernels declare it, or the compiler may use more registers than the threads have. */
export const maxRowThreads = 1024;

/** With several results, for kernels that find their operands themselves. */
export function finishKernel(
  results: readonly KernelOperand[],
  threads: ThreadNeed,
  write: (text: KernelText) => void,
  ...bounds: readonly number[]
): KernelPlan {
  const text = new KernelText();
  write(text);
  const written = new Set(results.map(({ key }) => key));
  const limits = bounds.length === 0 && threads.kind === 'rows' ? [maxRowThreads] : bounds;
  return {
    write: (name) => text.finish(name, written, limits),
    operands: text.operands,
    symbols: text.symbols,
    threads,
  };
}

export interface RowWriting extends Writing, RowElements {}

export interface RowElements extends Pick<Writing, 'text'> {
  readonly element: () => string; // at `j` of `row`
  /** Where the row lies in memory, as float4; undefined if its elements are computed or not aligned. */
  readonly fours: string | undefined;
}

export function overRow(text: KernelText, write: () => void): void {
  text.line('#pragma unroll 4');
  text.block('for (int j = threadIdx.x; j < width; j += blockDim.x)', write);
}

/** Loads of a thread at once: a row has one block, so waiting for them takes the time. */
const together = 8;

/** Like overRow, with the element at `j` as `value`. */
export function overElements({ text, element, fours }: RowElements, write: () => void): void {
  const [type, groups] = fours === undefined ? ['float', 'width'] : ['float4', 'width / 4'];
  const load = fours === undefined ? element : (): string => `${fours}[j]`;
  const fields = fours === undefined ? [''] : ['.x', '.y', '.z', '.w'];
  text.block(`for (int first = threadIdx.x; first < ${groups}; first += ${together} * blockDim.x)`, () => {
    text.line(`${type} ahead[${together}];`);
    text.unroll('u', together, () => {
      text.line('const int j = first + u * blockDim.x;');
      text.block(`if (j < ${groups})`, () => text.line(`ahead[u] = ${load()};`));
    });
    text.unroll('u', together, () => {
      text.line('const int group = first + u * blockDim.x;');
      text.block(`if (group < ${groups})`, () => {
        fields.forEach((field, e) => {
          text.block('', () => {
            text.line(`const int j = ${fields.length} * group + ${e};`);
            text.line(`const float value = ahead[u]${field};`);
            write();
          });
        });
      });
    });
  });
}

export function writeMaximum(writing: RowWriting): void {
  const { text } = writing;
  text.line('float part = -INFINITY;');
  overElements(writing, () => text.line('part = fmaxf(part, value);'));
  text.line('const float largest = blockMaximum(part);');
}
