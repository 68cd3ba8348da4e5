/**
 * Products with one of several matrices per row. A block owns a stretch of the columns of one matrix: it lists the rows
 * that chose the matrix, in order, and multiplies them in groups, so that a matrix is read once per group and not at
 * all if no row chose it.
 */
import type { TensorOf } from '../../../graph/tensor.js';
import { rootOf } from '../programs/step.js';
import type { FindOperand } from './element-code.js';
import { type KernelPlan, writeKernel } from './kernel-plan.js';
import type { KernelOperand, KernelText } from './kernel-text.js';

const threads = 256;
const warps = threads / 32;
/** Columns of a block, rows of a group, and listed rows. */
const [tile, group, listed] = [64, 8, 2048];

export function planExperts(
  tensor: TensorOf<'expertProduct'>,
  result: KernelOperand,
  find: FindOperand,
): KernelPlan {
  const { count, transposed } = tensor.attributes;
  const [rows, table, chosen] = tensor.inputs.map((input) => find(rootOf(input))!) as [
    KernelOperand,
    KernelOperand,
    KernelOperand,
  ];
  const stride = tensor.inputs[1]!.shape[1] as number;
  const [length, columns] = [tensor.inputs[0]!.shape[1] as number, tensor.shape[1] as number];
  const tiles = Math.ceil(columns / tile);
  const need = { kind: 'blocks', count: count * tiles, block: threads } as const;
  return writeKernel(result, find, need, ({ text }) => {
    text.line(`__shared__ int list[${listed}];`);
    text.line(`__shared__ int totals[${warps}];`);
    text.line(`__shared__ float parts[${warps}][${group * tile}];`);
    text.line('const int warp = threadIdx.x / 32;');
    text.line('const int lane = threadIdx.x % 32;');
    text.line(`const int count = ${text.dimension(tensor.shape[0]!)};`);
    text.block(`for (int item = blockIdx.x; item < ${count * tiles}; item += gridDim.x)`, () => {
      text.line(`const int expert = item / ${tiles};`);
      text.line(`const int first = item % ${tiles} * ${tile};`);
      text.line(`const int own = expert * ${stride / count};`);
      text.line('int found = 0;');
      text.block(`for (int base = 0; base < count; base += ${threads})`, () => {
        listRows(text, chosen);
        text.line(`if (found + ${threads} <= ${listed} && base + ${threads} < count) continue;`);
        text.block(`for (int start = 0; start < found; start += ${group})`, () => {
          text.line(`const int size = min(${group}, found - start);`);
          // One row alone is usual where few are decoded.
          for (const [head, many] of [
            ['if (size == 1)', 1],
            ['else', group],
          ] as const) {
            text.block(head, () => {
              text.line(`int row[${many}];`);
              unroll(text, many, `row[r] = list[start + min(r, size - 1)] * ${length};`);
              const sum = transposed ? sumAlongRows : sumAlongColumns;
              sum(text, { rows, table, stride, length, columns, many });
            });
          }
          text.line('__syncthreads();');
          text.block(`for (int at = threadIdx.x; at < size * ${tile}; at += ${threads})`, () => {
            text.line(`const int column = first + at % ${tile};`);
            text.line(`if (column >= ${columns}) continue;`);
            text.line('float total = parts[0][at];');
            const more = transposed ? [] : Array.from({ length: warps - 1 }, (_, part) => part + 1);
            for (const part of more) text.line(`total += parts[${part}][at];`);
            text.store(result, `list[start + at / ${tile}] * ${columns} + column`, 'total');
          });
          text.line('__syncthreads();');
        });
        text.line('found = 0;');
      });
    });
  });
}

/** Appends the rows from `base` on that chose the expert. */
function listRows(text: KernelText, chosen: KernelOperand): void {
  text.line('const int candidate = base + threadIdx.x;');
  text.line(`const int isOwn = candidate < count && ${text.load(chosen, 'candidate')} == expert ? 1 : 0;`);
  text.line('int rank = isOwn;');
  text.block('for (int step = 1; step < 32; step <<= 1)', () => {
    text.line('const int other = __shfl_up_sync(0xffffffffu, rank, step);');
    text.line('if (lane >= step) rank += other;');
  });
  text.line('if (lane == 31) totals[warp] = rank;');
  text.line('__syncthreads();');
  text.line('int place = found + rank - 1;');
  text.line('for (int before = 0; before < warp; before++) place += totals[before];');
  text.line(`for (int each = 0; each < ${warps}; each++) found += totals[each];`);
  text.line('if (isOwn != 0) list[place] = candidate;');
  text.line('__syncthreads();');
}

interface Sum {
  readonly rows: KernelOperand;
  readonly table: KernelOperand;
  readonly stride: number;
  readonly length: number;
  readonly columns: number;
  readonly many: number;
}

const unroll = (text: KernelText, many: number, line: string): void => {
  text.line('#pragma unroll');
  text.line(`for (int r = 0; r < ${many}; r++) ${line}`);
};

/** Lanes own columns and warps share the terms. */
function sumAlongColumns(text: KernelText, { rows, table, stride, length, columns, many }: Sum): void {
  text.line(`float low[${many}] = {};`);
  text.line(`float high[${many}] = {};`);
  // Missing columns repeat the last one and are not stored.
  text.line(`const int left = own + min(first + lane, ${columns - 1});`);
  text.line(`const int right = own + min(first + lane + 32, ${columns - 1});`);
  text.line(`#pragma unroll ${many === 1 ? 8 : 4}`);
  text.block(`for (int i = warp; i < ${length}; i += ${warps})`, () => {
    text.line(`const float a = ${text.load(table, `(long long)i * ${stride} + left`)};`);
    text.line(`const float b = ${text.load(table, `(long long)i * ${stride} + right`)};`);
    text.unroll('r', many, () => {
      text.line(`const float x = ${text.load(rows, 'row[r] + i')};`);
      text.line('low[r] += x * a;');
      text.line('high[r] += x * b;');
    });
  });
  unroll(
    text,
    many,
    `{ parts[warp][r * ${tile} + lane] = low[r]; parts[warp][r * ${tile} + lane + 32] = high[r]; }`,
  );
}

/** Warps own columns of the transpose, and lanes share the terms. */
function sumAlongRows(text: KernelText, { rows, table, stride, length, columns, many }: Sum): void {
  text.block(
    `for (int column = warp; column < ${tile} && first + column < ${columns}; column += ${warps})`,
    () => {
      text.line(`float sums[${many}] = {};`);
      text.line('#pragma unroll 2');
      text.block(`for (int i = lane; i < ${length}; i += 32)`, () => {
        text.line(
          `const float a = ${text.load(table, `(long long)(first + column) * ${stride} + own + i`)};`,
        );
        unroll(text, many, `sums[r] += ${text.load(rows, 'row[r] + i')} * a;`);
      });
      text.block('for (int step = 16; step > 0; step >>= 1)', () => {
        unroll(text, many, 'sums[r] += __shfl_xor_sync(0xffffffffu, sums[r], step);');
      });
      text.block('if (lane == 0)', () => {
        unroll(text, many, `parts[0][r * ${tile} + column] = sums[r];`);
      });
    },
  );
}
