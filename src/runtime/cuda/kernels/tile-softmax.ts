/**
 * Common parts of tensor-core attention: a warp has 16 rows of a head (lane 4 g + t: rows g and g + 8) and an online
 * softmax.
 */
import type { Tensor, TensorOf } from '../../../graph/tensor.js';
import { declareAttentionSizes, declareKeyHead, findMaskRow } from './attention-kernel.js';
import type { ElementCode } from './element-code.js';
import type { KernelOperand, KernelText } from './kernel-text.js';

export const tileRows = 16;

export interface TileWriting {
  readonly text: KernelText;
  readonly code: ElementCode;
  readonly tensor: TensorOf<'attention'>;
  readonly result: KernelOperand;
  readonly size: number;
  readonly chunk: number;
  readonly place: (side: Tensor) => KernelOperand;
}

export function declareSizes({ text, tensor }: TileWriting): void {
  declareAttentionSizes(text, tensor);
  text.line('const int warp = threadIdx.x / 32;');
  text.line('const int lane = threadIdx.x % 32;');
  text.line('const int g = lane / 4;');
  text.line('const int t = lane % 4;');
  text.line(`const int tiles = (rows + ${tileRows - 1}) / ${tileRows};`);
}

export function declareTile({ text, tensor, size }: TileWriting): void {
  const [, mask] = tensor.inputs;
  text.line(`const int row0 = ${tileRows} * tile + g;`);
  text.line('const int row1 = row0 + 8;');
  declareKeyHead(text, tensor);
  for (const r of [0, 1]) {
    // Missing rows repeat the last one and are not stored.
    const read = `min(row${r}, rows - 1)`;
    text.line(`const long long mask${r} = (long long)${findMaskRow(mask!, read)} * columns;`);
  }
  text.line('float top[2] = {-INFINITY, -INFINITY};');
  text.line('float powers[2] = {};');
  text.line(`float mixed[${size / 8}][4] = {};`);
}

export function writeSoftmax(
  { text, tensor, size, chunk, place }: TileWriting,
  keep: (power: string) => string,
): void {
  const mask = place(tensor.inputs[1]!);
  const each = (write: () => void): void => {
    text.unroll('n', chunk / 8, () => text.unroll('e', 2, write));
  };
  text.line('float higher[2] = {top[0], top[1]};');
  text.line('const int left = length - first - 2 * t;');
  for (const r of [0, 1])
    text.line(`const float* const seen${r} = ${text.pointer(mask)} + mask${r} + before + first + 2 * t;`);
  each(() => {
    for (const r of [0, 1]) {
      const masked = `score[n][${2 * r} + e] + seen${r}[8 * n + e]`;
      text.line(`score[n][${2 * r} + e] = 8 * n + e < left ? ${masked} : -INFINITY;`);
      text.line(`higher[${r}] = fmaxf(higher[${r}], score[n][${2 * r} + e]);`);
    }
  });
  text.line('float shrink[2], zero[2];');
  text.unroll('r', 2, () => {
    for (const step of [1, 2])
      text.line(`higher[r] = fmaxf(higher[r], __shfl_xor_sync(0xffffffffu, higher[r], ${step}));`);
    // A row may have no column yet.
    text.line('zero[r] = higher[r] == -INFINITY ? 0.0f : higher[r];');
    text.line('shrink[r] = __expf(top[r] - zero[r]);');
    text.line('top[r] = higher[r];');
    text.line('powers[r] *= shrink[r];');
  });
  each(() => {
    for (const r of [0, 1]) {
      text.line(`const float power${r} = __expf(score[n][${2 * r} + e] - zero[${r}]);`);
      text.line(`powers[${r}] += power${r};`);
      text.line(`score[n][${2 * r} + e] = ${keep(`power${r}`)};`);
    }
  });
  text.line('#pragma unroll');
  text.line(`for (int i = 0; i < ${size / 8}; i++)`);
  text.line('  for (int e = 0; e < 4; e++) mixed[i][e] *= shrink[e / 2];');
}
