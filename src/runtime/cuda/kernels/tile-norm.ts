/** The rows of a tile product that come from an rmsNorm: each block norms them itself, into shared memory. */
import type { HalfType } from '../../../core/half-floats.js';
import type { TensorOf } from '../../../graph/tensor.js';
import type { FindOperand } from './element-code.js';
import type { KernelText } from './kernel-text.js';
import type { SmallBatchWork } from './small-batch-kernel.js';
import { normThreads, pairOf, readNorm, writeSquares } from './wide-kernels.js';

export const warps = normThreads / 32;
/** Halves of a load. */
export const placesOfLoad = 8;
/** Between rows, in halves, against bank conflicts. */
export const rowSpacing = 32;

interface NormedTile {
  readonly text: KernelText;
  readonly work: SmallBatchWork;
  readonly find: FindOperand;
  readonly type: HalfType;
}

/** The norm's weights, which no kernel makes. */
export function readNormWeights(
  { text, work: { inner }, find }: NormedTile,
  norm: TensorOf<'rmsNorm'>,
): void {
  const { weights, kept } = readNorm(norm, find)!;
  text.line(`float4 weightOf[${kept}];`);
  text.unroll('i', kept, () => {
    text.line(`const int at = threadIdx.x + ${normThreads} * i;`);
    text.line(
      `if (at < ${inner / 4}) weightOf[i] = readAhead((const float4*)${text.pointer(weights)} + at);`,
    );
  });
}

/** Rows in shared memory, summed in the order of the kernel that norms more rows. Returns their name. */
export function writeNorm(
  { text, work, find, type }: NormedTile,
  norm: TensorOf<'rmsNorm'>,
  most: number,
): string {
  const { rows } = readNorm(norm, find)!;
  const { inner } = work;
  // Loads of some rows overlap; unrolling all would take longer, because each block runs this once.
  const overRows = (write: () => void): void => {
    text.line('#pragma unroll 4');
    text.block('for (int r = 0; r < rows; r++)', write);
  };
  const overRow = (write: () => void): void => {
    text.unroll('i', Math.ceil(inner / 4 / normThreads), () => {
      text.line(`const int at = threadIdx.x + ${normThreads} * i;`);
      text.block(`if (at < ${inner / 4})`, () => {
        text.line(`const float4 value = ((const float4*)${text.pointer(rows)})[r * ${inner / 4} + at];`);
        write();
      });
    });
  };
  const addLanes = (name: string): void => {
    text.line(
      `for (int step = 16; step > 0; step >>= 1) ${name} += __shfl_xor_sync(0xffffffffu, ${name}, step);`,
    );
  };
  text.line(`__shared__ uint4 room[${(most * (inner + rowSpacing)) / placesOfLoad}];`);
  text.line(`__shared__ float squaresOf[${most}][${warps}];`);
  overRows(() => {
    text.line('float squares = 0.0f;');
    overRow(() => {
      writeSquares(text, 'value');
    });
    addLanes('squares');
    text.line('if (lane == 0) squaresOf[r][warp] = squares;');
  });
  text.line('__syncthreads();');
  overRows(() => {
    text.line(`float total = lane < ${warps} ? squaresOf[r][lane] : 0.0f;`);
    addLanes('total');
    const epsilon = Math.fround(norm.attributes.epsilon);
    text.line(`const float factor = 1.0f / sqrtf(total / ${inner} + ${epsilon}f);`);
    overRow(() => {
      const values = ['x', 'y', 'z', 'w'].map((field) => `value.${field} * factor * weightOf[i].${field}`);
      const pairs = [0, 2].map((first) => pairOf(type, values[first]!, values[first + 1]!));
      text.line(`((uint2*)room)[(r * ${inner + rowSpacing} + 4 * at) / 4] = uint2{${pairs.join(', ')}};`);
    });
  });
  text.line('__syncthreads();');
  return 'room';
}
