/**
 * Few rows times weight matrices in one kernel, bound by the bandwidth of the weights. Matrices are stored as
 * [column, inner]: a warp streams one line (or several), 16 bytes per thread, and continues with further lines. The
 * next loads start before the arrived values are used. Adjacent lines belong to different blocks, so all processors
 * finish together.
 * The first loads start before the rows are read. Rows come from memory or from an rmsNorm that each block computes.
 * The result may be any elementwise function of sums at the same row and column (a residual, a gate with two
 * matrices), and several tensors of the same rows (q, k, v) share a launch. Rounding is that of separate products.
 */
import type { Shape } from '../../../graph/dimension.js';
import type { Tensor, TensorOf } from '../../../graph/tensor.js';
import type { FloatType } from '../driver/device.js';
import { type FindOperand, axesOf, ElementCode } from './element-code.js';
import { type KernelPlan, finishKernel } from './kernel-plan.js';
import {
  type KernelOperand,
  type KernelText,
  bytesOf,
  narrow,
  roundOne,
  storageTypes,
} from './kernel-text.js';

/** Rows that come from an rmsNorm: each block computes them itself. */
interface NormWriting {
  readonly text: KernelText;
  readonly find: FindOperand;
  readonly rows: number;
  readonly inner: number;
  /** In shared memory. */
  readonly type: FloatType;
  readonly threads: number;
}

/**
 * Returns the name of the rows in shared memory. Each thread keeps its values until the row's sum is known.
 */
function writeNorm(
  { text, find, rows, inner, type, threads }: NormWriting,
  norm: TensorOf<'rmsNorm'>,
): string {
  const [x, scale] = norm.inputs;
  const code = new ElementCode(text, find);
  const each = Math.ceil(inner / threads);
  const overRow = (write: () => void): void => {
    text.unroll('i', each, () => {
      text.line(`const int j = i * ${threads} + threadIdx.x;`);
      text.block(inner % threads === 0 ? '' : `if (j < ${inner})`, write);
    });
  };
  text.line(`__shared__ uint4 memory[${(rows * inner * bytesOf(type)) / 16}];`);
  text.line(`${storageTypes[type]}* const normed = (${storageTypes[type]}*)memory;`);
  text.line(`float scale[${each}];`);
  overRow(() => text.line(`scale[i] = ${code.element(scale!, { flat: 'j' })};`));
  text.block(`for (int r = 0; r < ${rows}; r++)`, () => {
    // Missing rows repeat the last one and are not stored.
    text.line('const int row = min(r, rows - 1);');
    const leading = axesOf(text, { flat: 'row' }, x!.shape.slice(0, -1));
    text.line(`float kept[${each}] = {};`);
    text.line('float squares = 0.0f;');
    overRow(() => {
      text.line(`kept[i] = ${code.element(x!, { axes: [...leading, 'j'] })};`);
      text.line('squares += kept[i] * kept[i];');
    });
    const { epsilon } = norm.attributes;
    text.line(`const float factor = 1.0f / sqrtf(blockSum(squares) / ${inner} + ${Math.fround(epsilon)}f);`);
    overRow(() => text.line(`normed[r * ${inner} + j] = ${narrow(type, 'kept[i] * factor * scale[i]')};`));
  });
  text.line('__syncthreads();');
  return 'normed';
}

interface SmallBatchProduct {
  readonly tensor: Tensor;
  readonly weights: KernelOperand;
  /** Type of the product by itself. */
  readonly type: FloatType;
}

export interface SmallBatchPart {
  /** One per matrix; all parts of a launch have the same number. */
  readonly products: readonly SmallBatchProduct[];
  readonly columns: number;
  /** A product, or an elementwise function of products. */
  readonly tensor: Tensor;
  readonly result: KernelOperand;
}

export interface SmallBatchWork {
  readonly leading: Shape; // the axes of rows
  readonly inner: number;
  readonly type: FloatType;
  readonly left: KernelOperand | TensorOf<'rmsNorm'>;
  readonly parts: readonly SmallBatchPart[];
}

interface SmallBatchTuning {
  readonly threads: number;
  /** Max blocks, and blocks per processor. */
  readonly blocks: number;
  readonly resident: number;
  /** Lines of each matrix that a warp reads at once, sharing the rows. */
  readonly lines: number;
  /** Loads in flight per thread and line. */
  readonly depth: number;
}

type ChooseTuning = (rows: number, matrices: number) => SmallBatchTuning;

/**
 * 64 registers allow four loads in flight: 1024 threads then wait for 64 KiB, twice what an H200 needs. With several
 * rows, half the threads wait for as much and read two lines at once, because unpacking rows would cost more than the
 * products.
 */
export const defaultTuning: ChooseTuning = (rows, matrices) => {
  const lines = rows > 1 && matrices === 1 ? 2 : 1;
  const resident = rows > 1 ? 1 : 2;
  return { threads: 512, blocks: 132 * resident, resident, lines, depth: 8 / (resident * lines * matrices) };
};

export const elementsOfLoad = (type: FloatType): number => 16 / bytesOf(type);

/** Static shared memory minus what block sums need. */
const maxSharedBytes = 47 * 1024;

export const hasRoomForNorm = (rows: number, inner: number, type: FloatType): boolean =>
  rows * inner * bytesOf(type) <= maxSharedBytes;

export function planSmallBatch(
  work: SmallBatchWork,
  find: FindOperand,
  rows: number,
  tuning: SmallBatchTuning,
): KernelPlan {
  const { type, parts, inner, left } = work;
  const { threads, blocks, resident, lines } = tuning;
  const counts = parts.map(({ columns }) => Math.ceil(columns / lines));
  const units = counts.reduce((sum, each) => sum + each, 0);
  const writingOf = (text: KernelText): SmallBatchWriting => ({
    text,
    work,
    find,
    rows,
    counts,
    units,
    ...tuning,
    loads: inner / elementsOfLoad(type),
    matrices: parts[0]!.products.length,
    pointers: parts.map(({ products }) => products.map(({ weights }) => text.pointer(weights))),
  });
  return finishKernel(
    parts.map(({ result }) => result),
    { kind: 'blocks', count: Math.min(blocks, Math.ceil(units / (threads / 32))), block: threads },
    (text) => {
      const writing = writingOf(text);
      text.line(`const int rows = ${text.count(work.leading)};`);
      startLoads(writing);
      const source =
        'operation' in left ? writeNorm({ text, ...work, find, rows, threads }, left) : text.pointer(left);
      text.block(`while (unit < ${units})`, () => {
        addUp(writing, source);
        storeParts(writing);
      });
    },
    threads,
    resident,
  );
}

interface SmallBatchWriting extends SmallBatchTuning, UnitWriting {
  readonly find: FindOperand;
  readonly rows: number;
  /** Loads of a warp per line. */
  readonly loads: number;
  readonly units: number;
}

const unroll = '#pragma unroll';
export const range = (count: number): readonly number[] => Array.from({ length: count }, (_, index) => index);
const lineCount = ({ matrices, lines }: SmallBatchWriting): number => matrices * lines;

/** Condition for loads that may pass the end of a line. */
function isInside({ loads, depth }: SmallBatchWriting, place: string): string | undefined {
  return loads % (32 * depth) === 0 ? undefined : `${place} < ${loads}`;
}

/** Units of lines, over all parts of a launch. */
export interface UnitWriting {
  readonly text: KernelText;
  readonly work: SmallBatchWork;
  readonly matrices: number;
  /** [part] Units. */
  readonly counts: readonly number[];
  /** [part][matrix] */
  readonly pointers: readonly (readonly string[])[];
}

/** Sets `part`, its `columns` and matrices, and `line`, counted in units, to those of `unit`. */
export function findUnit({ text, work, matrices, counts, pointers }: UnitWriting): void {
  const { parts } = work;
  const isEqual = parts.every(({ columns }) => columns === parts[0]!.columns);
  range(matrices).forEach((m) => text.line(`const uint4* matrix${m} = (const uint4*)${pointers[0]![m]!};`));
  text.line('line = unit;');
  if (parts.length > 1) text.line('part = 0;');
  text.line(`columns = ${parts[0]!.columns};`);
  let first = counts[0]!;
  parts.slice(1).forEach(({ columns }, index) => {
    text.block(`if (unit >= ${first})`, () => {
      text.line(`line = unit - ${first};`);
      text.line(`part = ${index + 1};`);
      if (!isEqual) text.line(`columns = ${columns};`);
      range(matrices).forEach((m) => text.line(`matrix${m} = (const uint4*)${pointers[index + 1]![m]!};`));
    });
    first += counts[index + 1]!;
  });
}

function locate(writing: SmallBatchWriting): void {
  const { text, matrices, lines, loads } = writing;
  findUnit(writing);
  if (lines > 1) text.line(`line *= ${lines};`);
  range(matrices).forEach((m) => {
    range(lines).forEach((l) => {
      // Missing lines repeat the last one and are not stored.
      const own = l === 0 ? 'line' : `min(line + ${l}, columns - 1)`;
      text.line(`from${m * lines + l} = matrix${m} + ${own} * ${loads} + lane;`);
    });
  });
}

function startLoads(writing: SmallBatchWriting): void {
  const { text, depth, work, units } = writing;
  text.line('const int lane = threadIdx.x % 32;');
  text.line('int unit = threadIdx.x / 32 * gridDim.x + blockIdx.x;');
  if (work.parts.length > 1) text.line('int part = 0;');
  text.line('int columns = 0;');
  text.line('int line = 0;');
  range(lineCount(writing)).forEach((index) => {
    text.line(`const uint4* from${index} = 0;`);
    text.line(`uint4 ahead${index}[${depth}];`);
  });
  text.block(`if (unit < ${units})`, () => {
    locate(writing);
    text.line(unroll);
    text.block(`for (int u = 0; u < ${depth}; u++)`, () => {
      const inside = isInside(writing, '32 * u + lane');
      range(lineCount(writing)).forEach((index) => {
        const condition = inside === undefined ? '' : `if (${inside}) `;
        text.line(`${condition}ahead${index}[u] = loadOnce(from${index} + 32 * u);`);
      });
    });
  });
}

/** Partial sums of each thread, while the next unit's loads start. */
function addUp(writing: SmallBatchWriting, source: string): void {
  const { text, work, rows, depth, loads, threads, units } = writing;
  const { type, left, parts } = work;
  const width = elementsOfLoad(type);
  const streams = range(lineCount(writing));
  text.line('const int ownLine = line;');
  text.line('const int ownColumns = columns;');
  if (parts.length > 1) text.line('const int ownPart = part;');
  streams.forEach((index) => text.line(`float sum${index}[${rows}] = {};`));
  // Unrolling would double the loads in flight and exceed the registers.
  text.line('#pragma unroll 1');
  text.block(`for (int at = lane; at < ${loads} + lane; at += ${32 * depth})`, () => {
    text.line(`int next = at - lane + ${32 * depth};`);
    text.block(`if (next >= ${loads})`, () => {
      text.line('next = 0;');
      text.line(`unit += ${threads / 32} * gridDim.x;`);
      text.block(`if (unit < ${units})`, () => {
        locate(writing);
      });
    });
    text.line(`const bool more = unit < ${units};`);
    text.line(unroll);
    text.block(`for (int u = 0; u < ${depth}; u++)`, () => {
      const [inside, nextInside] = ['at + 32 * u', 'next + 32 * u + lane'].map((at) => isInside(writing, at));
      const condition = nextInside === undefined ? 'more' : `more && ${nextInside}`;
      streams.forEach((index) => {
        text.line(`const uint4 words${index} = ahead${index}[u];`);
        text.line(`if (${condition}) ahead${index}[u] = loadOnce(from${index} + next + 32 * u);`);
      });
      text.block(inside === undefined ? '' : `if (${inside})`, () => {
        streams.forEach((index) => {
          text.line(
            `const float weight${index}[${width}] = { ${unpackWords(`words${index}`, type).join(', ')} };`,
          );
        });
        text.line(unroll);
        text.block(`for (int r = 0; r < ${rows}; r++)`, () => {
          const row = 'operation' in left ? 'r' : rows === 1 ? '0' : 'min(r, rows - 1)';
          text.line(`const uint4 given = ((const uint4*)${source})[${row} * ${loads} + at + 32 * u];`);
          text.line(`const float value[${width}] = { ${unpackWords('given', type).join(', ')} };`);
          streams.forEach((index) => {
            text.line(unroll);
            text.line(`for (int v = 0; v < ${width}; v++) sum${index}[r] += value[v] * weight${index}[v];`);
          });
        });
      });
    });
  });
}

function unpackWords(name: string, type: FloatType): string[] {
  return ['x', 'y', 'z', 'w'].flatMap((field) => {
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

function storeParts(writing: SmallBatchWriting): void {
  const { text, work, find, rows, matrices, lines } = writing;
  range(lineCount(writing)).forEach((index) => {
    text.line(unroll);
    text.line(
      `for (int r = 0; r < ${rows}; r++) for (int step = 16; step > 0; step >>= 1) sum${index}[r] += __shfl_xor_sync(0xffffffffu, sum${index}[r], step);`,
    );
  });
  range(matrices).forEach((m) => {
    text.line(`float total${m} = sum${m * lines}[0];`);
    range(rows * lines)
      .slice(1)
      .forEach((owner) => {
        const found = `sum${m * lines + (owner % lines)}[${Math.floor(owner / lines)}]`;
        text.line(`if (lane == ${owner}) total${m} = ${found};`);
      });
  });
  text.line(`const int row = lane / ${lines};`);
  text.line(`const int place = ownLine + lane % ${lines};`);
  text.block(`if (lane < ${rows * lines} && row < rows && place < ownColumns)`, () => {
    storeElement(text, work, find);
  });
}

/**
 * The element of `ownPart` at `row` and `place`, from its products `total0`, `total1`.
 * @param known operands that were read before
 */
export function storeElement(
  text: KernelText,
  work: SmallBatchWork,
  find: FindOperand,
  known: ReadonlyMap<Tensor, string> = new Map(),
): void {
  text.line('const int at = row * ownColumns + place;');
  work.parts.forEach(({ products, tensor, result }, index) => {
    const names = new Map([
      ...known,
      ...products.map((product, m) => [product.tensor, roundOne(product.type, `total${m}`)] as const),
    ]);
    const others: FindOperand = (other) => (other === tensor ? undefined : find(other));
    const code = new ElementCode(text, others, { at: 'at', names });
    text.block(work.parts.length === 1 ? '' : `if (ownPart == ${index})`, () => {
      text.store(result, 'at', code.element(tensor, { flat: 'at' }));
    });
  });
}
