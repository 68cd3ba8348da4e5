/**
 * Few rows times matrices of weights as one kernel. Nothing but the speed at which weights arrive counts here, so each is
 * loaded once, 16 bytes at a time, and every thread always has several loads on their way. Weights lie as [inner, column]:
 * a block has a strip of columns, `lanes` threads side by side for one line of it and groups of them for different lines,
 * and adds what its groups found in a fixed order at the end.
 *
 * The first loads start before the block looks at the rows. Rows may come as they are or through an rmsNorm that each
 * block computes for itself, and what is stored may be anything that needs sums of the same row and column alone: a
 * residual added, or a gate times what it lets through, with two matrices read at once. Several such tensors of the same
 * rows (queries, keys and values) lie side by side in one launch. Rounding is that of the products it stands for: rows
 * are rounded to the type of the weights, sums are float32.
 */
import type { Shape } from '../../graph/dimension.js';
import type { Tensor, TensorOf } from '../../graph/tensor.js';
import type { FloatType } from './device.js';
import type { FindOperand } from './element-code.js';
import { axesOf, ElementCode } from './element-code.js';
import { bytesOf } from './element-size.js';
import type { KernelPlan } from './kernel-plan.js';
import { finishKernel } from './kernel-plan.js';
import type { KernelOperand, KernelText } from './kernel-text.js';
import { narrow, storageTypes } from './kernel-text.js';

/** One tensor that a launch makes. */
export interface FewRowsPart {
  /** The products it is made of, one for each matrix; all parts of a launch have as many. */
  readonly products: readonly { readonly tensor: Tensor; readonly weights: KernelOperand }[];
  readonly columns: number;
  /** What is stored: a product, or what is computed of products element by element. */
  readonly tensor: Tensor;
  readonly result: KernelOperand;
}

export interface FewRowsWork {
  readonly leading: Shape; // the axes of rows
  readonly inner: number;
  readonly type: FloatType;
  /** Rows as they lie in memory, or the norm that makes them. */
  readonly left: KernelOperand | TensorOf<'rmsNorm'>;
  readonly parts: readonly FewRowsPart[];
}

/** How a launch uses the device. */
export interface FewRowsTuning {
  readonly threads: number;
  /** Threads side by side along columns; a power of 2. */
  readonly lanes: number;
  /** Loads on their way in each thread for each matrix: lines of weights, which follow each other. */
  readonly depth: number;
}

export type ChooseTuning = (rows: number, matrices: number) => FewRowsTuning;

/** Sums take registers from loads: the more there are, the less is on its way in each thread. */
export const usualTuning: ChooseTuning = (rows, matrices) => ({
  threads: 256,
  lanes: 4,
  depth: rows * matrices > 4 ? 4 : 8,
});

export const elementsOfLoad = (type: FloatType): number => 16 / bytesOf(type);
/** Shared memory that a kernel has without asking for more, less what sums over a block take. */
const mostSharedBytes = 47 * 1024;

/** Whether rows of a norm have room in each block. */
export const hasRoomForNorm = (rows: number, inner: number, type: FloatType): boolean =>
  rows * inner * bytesOf(type) <= mostSharedBytes;

export function planFewRows(
  work: FewRowsWork,
  find: FindOperand,
  rows: number,
  tuning: FewRowsTuning,
): KernelPlan {
  const { type, parts, inner } = work;
  const { threads, lanes } = tuning;
  const strip = lanes * elementsOfLoad(type);
  const matrices = parts[0]!.products.length;
  const results = parts.map(({ result }) => result);
  const tiles = parts.map(({ columns }) => Math.ceil(columns / strip));
  const count = tiles.reduce((sum, each) => sum + each, 0);
  const sumBytes = (threads / 32) * matrices * rows * strip * 4;
  const rowBytes = 'operation' in work.left ? rows * inner * bytesOf(type) : 0;
  return finishKernel(
    results,
    { kind: 'blocks', count, block: threads },
    (text) => {
      text.line(`__shared__ uint4 memory[${Math.ceil(Math.max(sumBytes, rowBytes) / 16)}];`);
      text.line(`const int rows = ${text.count(work.leading)};`);
      text.line(`const int lane = threadIdx.x % ${lanes};`);
      text.line(`const int group = threadIdx.x / ${lanes};`);
      const writing = { text, work, find, rows, strip, matrices, ...tuning };
      choosePart(writing, tiles);
      startLoads(writing);
      const source = 'operation' in work.left ? writeNorm(writing, work.left) : text.pointer(work.left);
      addUp(writing, source);
      shareSums(writing);
      storeParts(writing);
    },
    threads,
  );
}

interface FewRowsWriting extends FewRowsTuning {
  readonly text: KernelText;
  readonly work: FewRowsWork;
  readonly find: FindOperand;
  readonly rows: number;
  readonly strip: number;
  readonly matrices: number;
}

const unroll = '#pragma unroll';
const range = (count: number): readonly number[] => Array.from({ length: count }, (_, index) => index);

/** Which part this block has a strip of, and where its weights lie. */
function choosePart({ text, work, matrices, strip }: FewRowsWriting, tiles: readonly number[]): void {
  const { parts, type } = work;
  const pointers = parts.map(({ products }) => products.map(({ weights }) => text.pointer(weights)));
  const isEqual = parts.every(({ columns }) => columns === parts[0]!.columns);
  text.line('int tile = blockIdx.x;');
  if (parts.length > 1) text.line('int part = 0;');
  text.line(`${isEqual ? 'const ' : ''}int columns = ${parts[0]!.columns};`);
  range(matrices).forEach((m) => {
    text.line(`const uint4* next${m} = (const uint4*)${pointers[0]![m]!};`);
  });
  let first = tiles[0]!;
  parts.slice(1).forEach(({ columns }, index) => {
    text.block(`if (blockIdx.x >= ${first})`, () => {
      text.line(`tile = blockIdx.x - ${first};`);
      text.line(`part = ${index + 1};`);
      if (!isEqual) text.line(`columns = ${columns};`);
      range(matrices).forEach((m) => {
        text.line(`next${m} = (const uint4*)${pointers[index + 1]![m]!};`);
      });
    });
    first += tiles[index + 1]!;
  });
  const width = elementsOfLoad(type);
  text.line(`const int stride = columns / ${width};`);
  // Lanes behind the last column read the first one and are not stored.
  text.line(
    `const int column = tile * ${strip} + lane * ${width} < columns ? tile * ${lanesOf(strip, width)} + lane : 0;`,
  );
}

const lanesOf = (strip: number, width: number): number => strip / width;

function startLoads({ text, work, matrices, depth }: FewRowsWriting): void {
  text.line(`int k = group * ${depth};`);
  range(matrices).forEach((m) => {
    text.line(`next${m} += k * stride + column;`);
    text.line(`uint4 ahead${m}[${depth}];`);
  });
  text.block(`if (k < ${work.inner})`, () => {
    range(matrices).forEach((m) => {
      text.line(unroll);
      text.line(`for (int u = 0; u < ${depth}; u++) ahead${m}[u] = loadOnce(next${m} + u * stride);`);
    });
  });
}

/** The normed rows, in shared memory. */
function writeNorm({ text, work, find, rows }: FewRowsWriting, norm: TensorOf<'rmsNorm'>): string {
  const [x, scale] = norm.inputs;
  const { inner, type } = work;
  const code = new ElementCode(text, find);
  const overRow = `for (int j = threadIdx.x; j < ${inner}; j += blockDim.x)`;
  text.line(`${storageTypes[type]}* const normed = (${storageTypes[type]}*)memory;`);
  text.block(`for (int r = 0; r < ${rows}; r++)`, () => {
    // Rows that are not there repeat the last one and are not stored.
    text.line('const int row = min(r, rows - 1);');
    const leading = axesOf(text, { flat: 'row' }, x!.shape.slice(0, -1));
    const element = (): string => code.element(x!, { axes: [...leading, 'j'] });
    text.line('float squares = 0.0f;');
    text.block(overRow, () => {
      const value = element();
      text.line(`squares += ${value} * ${value};`);
    });
    const { epsilon } = norm.attributes;
    text.line(`const float factor = 1.0f / sqrtf(blockSum(squares) / ${inner} + ${Math.fround(epsilon)}f);`);
    text.block(overRow, () => {
      const value = `${element()} * factor * ${code.element(scale!, { flat: 'j' })}`;
      text.line(`normed[r * ${inner} + j] = ${narrow(type, value)};`);
    });
  });
  text.line('__syncthreads();');
  return 'normed';
}

/** What each group finds in its lines. */
function addUp(writing: FewRowsWriting, source: string): void {
  const { text, work, rows, matrices, depth, threads, lanes } = writing;
  const { inner, type } = work;
  const width = elementsOfLoad(type);
  const step = (threads / lanes) * depth;
  range(matrices).forEach((m) => {
    text.line(`float sum${m}[${rows}][${width}] = {};`);
  });
  text.block(`for (; k < ${inner}; k += ${step})`, () => {
    text.line(`const bool more = k + ${step} < ${inner};`);
    range(matrices).forEach((m) => {
      text.line(`next${m} += ${step} * stride;`);
    });
    text.line(`float value[${rows}][${depth}];`);
    text.line(unroll);
    text.block(`for (int r = 0; r < ${rows}; r++)`, () => {
      const row = 'operation' in work.left ? 'r' : rows === 1 ? '0' : 'min(r, rows - 1)';
      unpackRow(text, `${source} + ${row} * ${inner} + k`, type, depth);
    });
    text.line(unroll);
    text.block(`for (int u = 0; u < ${depth}; u++)`, () => {
      range(matrices).forEach((m) => {
        text.line(`const uint4 line${m} = ahead${m}[u];`);
        text.line(`if (more) ahead${m}[u] = loadOnce(next${m} + u * stride);`);
        text.line(`const float weight${m}[${width}] = { ${unpackWords(`line${m}`, type).join(', ')} };`);
        text.line(unroll);
        text.line(
          `for (int r = 0; r < ${rows}; r++) for (int v = 0; v < ${width}; v++) sum${m}[r][v] += value[r][u] * weight${m}[v];`,
        );
      });
    });
  });
}

/** `depth` values of a row, with as few loads as they take. */
function unpackRow(text: KernelText, from: string, type: FloatType, depth: number): void {
  const bytes = depth * bytesOf(type);
  if (bytes === 8) {
    text.line(`const uint2 words = *(const uint2*)(${from});`);
    unpackWords('words', type, ['x', 'y']).forEach((value, u) => {
      text.line(`value[r][${u}] = ${value};`);
    });
    return;
  }
  range(bytes / 16).forEach((load) => {
    text.line(`const uint4 words${load} = ((const uint4*)(${from}))[${load}];`);
    unpackWords(`words${load}`, type).forEach((value, index) => {
      text.line(`value[r][${load * elementsOfLoad(type) + index}] = ${value};`);
    });
  });
}

function unpackWords(
  name: string,
  type: FloatType,
  fields: readonly string[] = ['x', 'y', 'z', 'w'],
): string[] {
  return fields.flatMap((field) => {
    const word = `${name}.${field}`;
    if (type === 'float32') return [`__uint_as_float(${word})`];
    if (type === 'bfloat16')
      return [`__uint_as_float(${word} << 16)`, `__uint_as_float(${word} & 0xffff0000u)`];
    return [
      `fromFloat16((unsigned short)(${word} & 0xffffu))`,
      `fromFloat16((unsigned short)(${word} >> 16))`,
    ];
  });
}

/** Sums of a warp's groups, then in shared memory those of all warps. */
function shareSums({ text, work, rows, matrices, lanes, strip }: FewRowsWriting): void {
  const width = elementsOfLoad(work.type);
  text.line('__syncthreads();');
  text.line('float* const sums = (float*)memory;');
  text.line(unroll);
  text.block(`for (int r = 0; r < ${rows}; r++)`, () => {
    text.line(unroll);
    text.block(`for (int v = 0; v < ${width}; v++)`, () => {
      range(matrices).forEach((m) => {
        text.line(
          `for (int step = ${lanes}; step < 32; step <<= 1) sum${m}[r][v] += __shfl_xor_sync(0xffffffffu, sum${m}[r][v], step);`,
        );
        const place = `((threadIdx.x / 32 * ${matrices} + ${m}) * ${rows} + r) * ${strip} + lane * ${width} + v`;
        text.line(`if (threadIdx.x % 32 < ${lanes}) sums[${place}] = sum${m}[r][v];`);
      });
    });
  });
  text.line('__syncthreads();');
}

function storeParts({ text, work, find, rows, matrices, strip, threads }: FewRowsWriting): void {
  text.block(`for (int i = threadIdx.x; i < ${rows * strip}; i += ${threads})`, () => {
    text.line(`const int row = i / ${strip};`);
    text.line(`const int place = tile * ${strip} + i % ${strip};`);
    text.line('if (row >= rows || place >= columns) continue;');
    text.line('const int at = row * columns + place;');
    range(matrices).forEach((m) => {
      text.line(`float total${m} = 0.0f;`);
      text.line(
        `for (int warp = 0; warp < ${threads / 32}; warp++) total${m} += sums[(warp * ${matrices} + ${m}) * ${rows * strip} + i];`,
      );
    });
    work.parts.forEach(({ products, tensor, result }, index) => {
      const names = new Map(products.map((product, m) => [product.tensor, `total${m}`]));
      const others: FindOperand = (other) => (other === tensor ? undefined : find(other));
      const code = new ElementCode(text, others, { at: 'at', names });
      text.block(work.parts.length === 1 ? '' : `if (part == ${index})`, () => {
        text.store(result, 'at', code.element(tensor, { flat: 'at' }));
      });
    });
  });
}
