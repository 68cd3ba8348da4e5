/** One chunk of columns of split attention: scores, softmax, mixture. */
import type { Tensor, TensorOf } from '../../../graph/tensor.js';
import { findMaskRow } from './attention-code.js';
import type { ElementCode } from './element-code.js';
import type { KernelOperand, KernelText } from './kernel-text.js';

export const threads = 128;
export const chunk = 64;
/** Threads per column, each with four values at a time. */
export const groupFor = (size: number): number => [8, 4, 2, 1].find((group) => size % (4 * group) === 0) ?? 0;

export interface SplitAttention {
  readonly tensor: TensorOf<'attention'>;
  readonly result: KernelOperand;
  readonly scratch: KernelOperand;
  /** Zeros before and after. */
  readonly counters: KernelOperand;
  /** Set if the keys of the new rows are computed here. */
  readonly ownKeys: { readonly tensor: Tensor; readonly result: KernelOperand } | undefined;
}

export interface SplitWriting {
  readonly text: KernelText;
  readonly code: ElementCode;
  readonly work: SplitAttention;
  readonly rows: number;
  readonly size: number;
  readonly groups: number; // of threads that share columns for the mixture
  readonly place: (tensor: Tensor) => KernelOperand;
}

export function writeChunk(writing: SplitWriting): void {
  writeScores(writing);
  writeSoftmax(writing);
  writeMixture(writing);
}

export const lengthOf = (text: KernelText, { inputs }: TensorOf<'attention'>, segment: number): string =>
  text.dimension(inputs[2 + 2 * segment]!.shape.at(-3)!);

function findColumn(writing: SplitWriting, name: string, side: 0 | 1): void {
  const { text, work, place } = writing;
  const { attributes, inputs } = work.tensor;
  const lengths = attributes.segments.map((_, index) => lengthOf(text, work.tensor, index));
  const starts = ['0'];
  for (const length of lengths.slice(0, -1)) {
    const last = starts.at(-1)!;
    starts.push(last === '0' ? length : text.define('int', `${last} + ${length}`));
  }
  text.line(`const float4* ${name};`);
  attributes.segments.forEach((kind, index) => {
    const tensor = inputs[2 + 2 * index + side]!;
    const [from, length, next] = [starts[index]!, lengths[index]!, starts[index + 1]];
    const otherwise = index === 0 ? '' : 'else ';
    const head = next === undefined ? otherwise : `${otherwise}if (column < ${next})`;
    const line = from === '0' ? 'column' : `column - ${from}`;
    const [stride, own] =
      kind === 'common' ? [attributes.keyValueHeads, 'commonHead'] : ['keyHeads', 'keyHead'];
    const row = kind === 'own' ? `sequence * ${length} + ${line}` : line;
    const isMadeHere = side === 0 && kind === 'own' && work.ownKeys !== undefined;
    const found = isMadeHere
      ? `ownKeys[${line}]`
      : `(const float4*)${text.pointer(place(tensor))} + ((long long)(${row}) * ${stride} + ${own}) * ${writing.size / 4}`;
    text.block(head, () => {
      text.line(`${name} = ${found};`);
    });
  });
}

function writeScores(writing: SplitWriting): void {
  const { text, work, rows, size, place } = writing;
  const group = groupFor(size);
  const [, mask] = work.tensor.inputs;
  // All lanes stay together, because they exchange sums.
  text.block(`for (int base = 0; base < length; base += ${threads / group})`, () => {
    text.line(`const int u = base + threadIdx.x / ${group};`);
    text.line('const int column = first + min(u, length - 1);');
    findColumn(writing, 'key', 0);
    text.line(`float score[${rows}] = {};`);
    text.line('#pragma unroll');
    text.block(`for (int i = threadIdx.x % ${group}; i < ${size / 4}; i += ${group})`, () => {
      text.line('const float4 value = key[i];');
      text.line(
        `for (int r = 0; r < ${rows}; r++) score[r] += query[r][i].x * value.x + query[r][i].y * value.y + query[r][i].z * value.z + query[r][i].w * value.w;`,
      );
    });
    text.block(`for (int r = 0; r < ${rows}; r++)`, () => {
      text.line(
        `for (int step = ${group / 2}; step > 0; step >>= 1) score[r] += __shfl_xor_sync(0xffffffffu, score[r], step);`,
      );
      text.line('const int row = min(r, rows - 1);');
      const maskRow = findMaskRow(mask!, 'row');
      const masked = text.load(place(mask!), `(long long)${maskRow} * columns + column`);
      text.line(`if (u < length && threadIdx.x % ${group} == 0) scores[r][u] = score[r] + ${masked};`);
    });
  });
  text.line('__syncthreads();');
}

function writeSoftmax({ text, rows }: SplitWriting): void {
  const overLanes = (join: string): void => {
    text.line(`for (int step = 16; step > 0; step >>= 1) ${join}`);
  };
  text.block(`if (warp < ${rows})`, () => {
    text.line('float top = -INFINITY;');
    text.line('for (int u = lane; u < length; u += 32) top = fmaxf(top, scores[warp][u]);');
    overLanes('top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, step));');
    text.line('const float old = largest[warp];');
    text.line('const float higher = fmaxf(old, top);');
    text.line('float powers = 0.0f;');
    text.block('for (int u = lane; u < length; u += 32)', () => {
      text.line('const float power = expf(scores[warp][u] - higher);');
      text.line('scores[warp][u] = power;');
      text.line('powers += power;');
    });
    overLanes('powers += __shfl_xor_sync(0xffffffffu, powers, step);');
    text.line('__syncwarp();');
    text.block('if (lane == 0)', () => {
      text.line('shrink[warp] = old == higher ? 1.0f : expf(old - higher);');
      text.line('total[warp] = total[warp] * shrink[warp] + powers;');
      text.line('largest[warp] = higher;');
    });
  });
  text.line('__syncthreads();');
}

const fields = ['x', 'y', 'z', 'w'];

function writeMixture(writing: SplitWriting): void {
  const { text, rows, groups } = writing;
  text.block(`for (int r = 0; r < ${rows}; r++)`, () => {
    for (const field of fields) text.line(`sum[r].${field} *= shrink[r];`);
  });
  text.block(`if (group < ${groups})`, () => {
    text.line('#pragma unroll 4');
    text.block(`for (int u = group; u < length; u += ${groups})`, () => {
      text.line('const int column = first + u;');
      findColumn(writing, 'row', 1);
      text.line('const float4 value = row[at];');
      text.block(`for (int r = 0; r < ${rows}; r++)`, () => {
        for (const field of fields) text.line(`sum[r].${field} += scores[r][u] * value.${field};`);
      });
    });
  });
  text.line('__syncthreads();');
}
