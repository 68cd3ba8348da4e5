/**
 * Kernels for everything except matrix products: loops over elements, and row operations with one block per row and a
 * fixed order of sums.
 */
import { countElements, multiplyDimensions } from '../../../graph/dimension.js';
import type { Tensor, TensorOf } from '../../../graph/tensor.js';
import { type FindOperand, axesOf } from './element-code.js';
import {
  type KernelPlan,
  type RowWriting,
  overElements,
  overRow,
  writeKernel,
  writeMaximum,
} from './kernel-plan.js';
import type { KernelOperand, KernelText } from './kernel-text.js';
import { rootOf } from '../programs/step.js';
import { writeDraw, writeKeepLikeliest } from './drawing-kernels.js';
import { isAligned, planWideMap, planWideNorm } from './wide-kernels.js';

export function planMap(tensor: Tensor, result: KernelOperand, find: FindOperand): KernelPlan {
  const wide = planWideMap(tensor, result, find);
  if (wide !== undefined) return wide;
  const count = countElements(tensor.shape);
  return writeKernel(result, find, { kind: 'elements', count }, ({ text, code }) => {
    const loop = `for (int at = blockIdx.x * blockDim.x + threadIdx.x; at < ${text.count(tensor.shape)}; at += gridDim.x * blockDim.x)`;
    text.block(loop, () => text.store(result, 'at', code.element(tensor, { flat: 'at' })));
  });
}

type RowOperation =
  | 'softmax'
  | 'logSoftmax'
  | 'rmsNorm'
  | 'reduceMaximum'
  | 'argmax'
  | 'topIndices'
  | 'keepLikeliest'
  | 'draw';

const rowOperations: {
  readonly [Name in RowOperation]: (tensor: TensorOf<Name>, writing: RowWriting) => void;
} = {
  softmax: (_, writing) => {
    const { text, element, result } = writing;
    const total = writeExponentials(writing);
    overRow(text, () => text.store(result, 'row * width + j', `expf(${element()} - largest) / ${total}`));
  },
  logSoftmax: (_, writing) => {
    const { text, element, result } = writing;
    const total = writeExponentials(writing);
    text.line(`const float logarithm = logf(${total});`);
    overRow(text, () => text.store(result, 'row * width + j', `${element()} - largest - logarithm`));
  },
  rmsNorm: ({ attributes: { epsilon }, inputs: [, scale] }, { text, code, element, result }) => {
    text.line('float squares = 0.0f;');
    overRow(text, () => {
      const value = element();
      text.line(`squares += ${value} * ${value};`);
    });
    text.line(`const float factor = 1.0f / sqrtf(blockSum(squares) / width + ${Math.fround(epsilon)}f);`);
    overRow(text, () => {
      const weight = code.element(scale!, { flat: 'j' });
      text.store(result, 'row * width + j', `${element()} * factor * ${weight}`);
    });
  },
  reduceMaximum: (_, writing) => {
    writeMaximum(writing);
    writing.text.block('if (threadIdx.x == 0)', () => writing.text.store(writing.result, 'row', 'largest'));
  },
  argmax: (_, writing) => {
    writeRanks(writing, 1, ({ text, result }) => text.store(result, 'row', 'last'));
  },
  topIndices: ({ attributes: { count } }, writing) => {
    writeRanks(writing, count, ({ text, result }) => text.store(result, `row * ${count} + rank`, 'last'));
  },
  keepLikeliest: writeKeepLikeliest,
  draw: writeDraw,
};

function writeExponentials(writing: RowWriting): string {
  writeMaximum(writing);
  const { text } = writing;
  text.line('float powers = 0.0f;');
  // So many exponentials at once would take more registers than there are.
  overElements({ ...writing, fours: undefined }, () => text.line('powers += expf(value - largest);'));
  text.line('const float total = blockSum(powers);');
  return 'total';
}

/** Takes the next in rank `count` times: `bound` at `last`. */
function writeRanks(writing: RowWriting, count: number, take: (writing: RowWriting) => void): void {
  const { text } = writing;
  text.line('float bound = INFINITY;');
  text.line('int last = -1;');
  text.block(`for (int rank = 0; rank < ${count}; rank++)`, () => {
    text.line('float best = -INFINITY;');
    text.line('int place = 0x7fffffff;');
    overElements(writing, () => {
      text.line(
        'if ((rank == 0 || comesBefore(bound, last, value, j)) && comesBefore(value, j, best, place)) { best = value; place = j; }',
      );
    });
    text.line('blockFirst(best, place);');
    text.line('bound = best;');
    text.line('last = place;');
    text.block('if (threadIdx.x == 0)', () => {
      take(writing);
    });
  });
}

type RowTensor = Extract<Tensor, { readonly operation: RowOperation }>;

export const isRowOperation = (tensor: Tensor): tensor is RowTensor => tensor.operation in rowOperations;

export function planRows(tensor: RowTensor, result: KernelOperand, find: FindOperand): KernelPlan {
  const wide = tensor.operation === 'rmsNorm' ? planWideNorm(tensor, result, find) : undefined;
  if (wide !== undefined) return wide;
  const [x] = tensor.inputs;
  const [leading, width] = [x!.shape.slice(0, -1), x!.shape.at(-1)!];
  const count = countElements(leading);
  return writeKernel(result, find, { kind: 'rows', count, width }, (writing) => {
    const { text, code } = writing;
    text.line(`const int width = ${text.dimension(width)};`);
    text.block(`for (int row = blockIdx.x; row < ${text.count(leading)}; row += gridDim.x)`, () => {
      const element = (): string => {
        const axes = axesOf(text, { flat: 'row' }, leading);
        return code.element(x!, { axes: [...axes, 'j'] });
      };
      const write = rowOperations[tensor.operation] as (tensor: Tensor, writing: RowWriting) => void;
      write(tensor, { ...writing, element, fours: findFours(text, x!, find) });
    });
  });
}

function findFours(text: KernelText, x: Tensor, find: FindOperand): string | undefined {
  const [operand, width] = [find(rootOf(x)), x.shape.at(-1)!];
  if (operand?.type !== 'float32' || typeof width !== 'number' || width % 4 !== 0) return undefined;
  return isAligned(rootOf(x))
    ? `((const float4*)${text.pointer(operand)} + (long long)row * ${width / 4})`
    : undefined;
}

export function planSum(tensor: TensorOf<'sum'>, result: KernelOperand, find: FindOperand): KernelPlan {
  const [x] = tensor.inputs;
  const { axes } = tensor.attributes;
  const summed = axes.map((axis) => x!.shape[axis]!);
  const width = countElements(summed);
  const count = countElements(tensor.shape);
  return writeKernel(result, find, { kind: 'rows', count, width }, ({ text, code }) => {
    text.line(`const int width = ${text.dimension(width)};`);
    text.block(`for (int row = blockIdx.x; row < ${text.count(tensor.shape)}; row += gridDim.x)`, () => {
      text.line('float part = 0.0f;');
      const kept = axesOf(text, { flat: 'row' }, tensor.shape);
      const element = (): string => {
        const inner = axesOf(text, { flat: 'j' }, summed);
        const index = x!.shape.map((_, axis) => {
          const place = axes.indexOf(axis);
          return place < 0 ? kept[axis]! : inner[place]!;
        });
        return code.element(x!, { axes: index });
      };
      const isLast = axes.length === 1 && axes[0] === x!.shape.length - 1;
      const fours = isLast ? findFours(text, x!, find) : undefined;
      overElements({ text, element, fours }, () => text.line('part += value;'));
      text.line('const float total = blockSum(part);');
      text.block('if (threadIdx.x == 0)', () => text.store(result, 'row', 'total'));
    });
  });
}

export function planScatter(
  tensor: TensorOf<'scatterAddRows'>,
  result: KernelOperand,
  find: FindOperand,
): KernelPlan {
  const [, indices, values] = tensor.inputs;
  const width = countElements(tensor.shape.slice(1));
  const rows = countElements(indices!.shape);
  const count = multiplyDimensions(tensor.shape[0]!, width);
  return writeKernel(result, find, { kind: 'elements', count }, ({ text, code }) => {
    const loop = `for (int at = blockIdx.x * blockDim.x + threadIdx.x; at < ${text.count(tensor.shape)}; at += gridDim.x * blockDim.x)`;
    text.block(loop, () => {
      text.line(`const int row = at / ${text.dimension(width)};`);
      text.line(`const int column = at % ${text.dimension(width)};`);
      text.line('float total = 0.0f;');
      text.block(`for (int m = 0; m < ${text.dimension(rows)}; m++)`, () => {
        text.line(`if (${code.element(indices!, { flat: 'm' })} != row) continue;`);
        const from = text.define('int', `m * ${text.dimension(width)} + column`);
        text.line(`total += ${code.element(values!, { flat: from })};`);
      });
      text.store(result, 'at', 'total');
    });
  });
}
