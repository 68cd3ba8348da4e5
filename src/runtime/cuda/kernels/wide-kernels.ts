/**
 * Kernels that process eight or four adjacent elements per thread: memory-bound kernels need 16-byte loads.
 */
import type { HalfType } from '../../../core/half-floats.js';
import { type Shape, countElements, equalShapes } from '../../../graph/dimension.js';
import type { Tensor, TensorOf } from '../../../graph/tensor.js';
import { rootOf } from '../programs/step.js';
import { type FindOperand, ElementCode, isElementwise } from './element-code.js';
import { type KernelPlan, finishKernel } from './kernel-plan.js';
import type { KernelOperand, KernelText } from './kernel-text.js';

/** Elements 8 * at to 8 * at + 7. */
export function loadEight(text: KernelText, operand: KernelOperand, at: string): readonly string[] {
  const pointer = text.pointer(operand);
  const fields = ['x', 'y', 'z', 'w'];
  if (operand.type === 'float32' || operand.type === 'int32') {
    const vector = operand.type === 'float32' ? 'float4' : 'int4';
    return [0, 1].flatMap((half) => {
      const name = text.name('wide');
      text.line(`const ${vector} ${name} = ((const ${vector}*)${pointer})[2 * ${at} + ${half}];`);
      return fields.map((field) => `${name}.${field}`);
    });
  }
  const name = text.name('wide');
  const convert = operand.type === 'bfloat16' ? 'fromBfloat16' : 'fromFloat16';
  text.line(`const uint4 ${name} = ((const uint4*)${pointer})[${at}];`);
  return fields.flatMap((field) =>
    ['', ' >> 16'].map((shift) =>
      text.define('float', `${convert}((unsigned short)(${name}.${field}${shift}))`),
    ),
  );
}

/** `at` is a multiple of four. */
export function storeFour(
  text: KernelText,
  operand: KernelOperand,
  at: string,
  values: readonly string[],
): void {
  const pointer = text.pointer(operand);
  const { type } = operand;
  if (type === 'float32' || type === 'int32') {
    const vector = type === 'float32' ? 'float4' : 'int4';
    text.line(`*(${vector}*)(${pointer} + ${at}) = ${vector}{${values.join(', ')}};`);
    return;
  }
  const pairs = [0, 2].map((first) => pairOf(type as HalfType, values[first]!, values[first + 1]!));
  text.line(`*(uint2*)(${pointer} + ${at}) = uint2{${pairs.join(', ')}};`);
}

/** `at` is a multiple of eight. */
export function storeEight(
  text: KernelText,
  operand: KernelOperand,
  at: string,
  values: readonly string[],
): void {
  const { type } = operand;
  if (type === 'float32' || type === 'int32') {
    storeFour(text, operand, at, values.slice(0, 4));
    storeFour(text, operand, `${at} + 4`, values.slice(4));
    return;
  }
  const pairs = [0, 2, 4, 6].map((first) => pairOf(type as HalfType, values[first]!, values[first + 1]!));
  text.line(`*(uint4*)(${text.pointer(operand)} + ${at}) = uint4{${pairs.join(', ')}};`);
}

export const pairOf = (type: HalfType, first: string, second: string): string =>
  `${type === 'bfloat16' ? 'packBfloat16' : 'packFloat16'}(${first}, ${second})`;

const together = 8;
/** Limited by registers. */
const maxOperands = 4;

/** Undefined if some element needs others than those at its own place. */
export function planWideMap(
  tensor: Tensor,
  result: KernelOperand,
  find: FindOperand,
): KernelPlan | undefined {
  const leaves = listLeaves(tensor, find);
  if (leaves === undefined || !isDivided(tensor.shape) || !isWide(result)) return undefined;
  const count = countElements(tensor.shape);
  const need = { kind: 'elements', count, each: together } as const;
  return finishKernel([result], need, (text) => {
    const groups = `${text.count(tensor.shape)} / ${together}`;
    const loop = `for (int at = blockIdx.x * blockDim.x + threadIdx.x; at < ${groups}; at += gridDim.x * blockDim.x)`;
    text.block(loop, () => {
      const loaded = [...leaves].map(([leaf, operand]) => [leaf, loadEight(text, operand, 'at')] as const);
      const values = Array.from({ length: together }, (_, e) => {
        const at = text.define('int', `at * ${together} + ${e}`);
        const names = new Map(loaded.map(([leaf, own]) => [leaf, own[e]!]));
        return new ElementCode(text, () => undefined, { at, names }).element(tensor, { flat: at });
      });
      storeEight(text, result, `at * ${together}`, values);
    });
  });
}

/** Operands in memory, all of the tensor's shape. */
function listLeaves(tensor: Tensor, find: FindOperand): ReadonlyMap<Tensor, KernelOperand> | undefined {
  const leaves = new Map<Tensor, KernelOperand>();
  const visit = (node: Tensor): boolean => {
    const operand = find(node);
    if (operand !== undefined) {
      leaves.set(node, operand);
      return isWide(operand) && isAligned(node);
    }
    if (node.operation === 'constant') return node.attributes.values.length <= 1;
    return (
      isElementwise(node) &&
      node.inputs.every(
        (side) =>
          (isNumber(side) || node.operation === 'reshape' || equalShapes(side.shape, node.shape)) &&
          visit(side),
      )
    );
  };
  return visit(tensor) && leaves.size > 0 && leaves.size <= maxOperands ? leaves : undefined;
}

const isNumber = (tensor: Tensor): boolean => tensor.operation === 'constant' && tensor.shape.length === 0;
const isWide = ({ type }: KernelOperand): boolean => type !== 'bool';

function isDivided(shape: Shape): boolean {
  const width = shape.at(-1);
  return typeof width === 'number' && width % together === 0;
}

/** Inputs may be rows of a longer buffer, so they may be unaligned for 16-byte loads. */
export function isAligned({ operation, shape }: Tensor): boolean {
  const width = shape.at(-1);
  return operation !== 'input' || (typeof width === 'number' && width % 4 === 0);
}

export const normThreads = 256;
const maxKept = 8;

/** Undefined if a row cannot be read as groups of four. */
export function readNorm({ inputs: [x, scale], shape }: TensorOf<'rmsNorm'>, find: FindOperand) {
  const [rows, weights] = [find(rootOf(x!)), find(scale!)];
  const width = shape.at(-1)!;
  if (typeof width !== 'number' || width % 4 !== 0 || !isAligned(rootOf(x!))) return undefined;
  const kept = Math.ceil(width / 4 / normThreads);
  if (rows?.type !== 'float32' || weights?.type !== 'float32' || kept > maxKept) return undefined;
  return { rows, weights, width, kept };
}

/** One by one: the compiler may not choose which of them to fuse. */
export function writeSquares(text: KernelText, value: string): void {
  for (const field of ['x', 'y', 'z', 'w'])
    text.line(`squares = fmaf(${value}.${field}, ${value}.${field}, squares);`);
}

/** Reads each row once. */
export function planWideNorm(
  tensor: TensorOf<'rmsNorm'>,
  result: KernelOperand,
  find: FindOperand,
): KernelPlan | undefined {
  const found = readNorm(tensor, find);
  if (found === undefined) return undefined;
  const { rows, weights, width, kept } = found;
  const { attributes, shape } = tensor;
  const block = kept > 1 ? normThreads : 32 * Math.ceil(width / 128);
  const count = countElements(shape.slice(0, -1));
  return finishKernel([result], { kind: 'blocks', count, block }, (text) => {
    text.line('const long long row = blockIdx.x;');
    text.line(`if (row >= ${text.count(shape.slice(0, -1))}) return;`);
    text.line(`float4 kept[${kept}];`);
    text.line('float squares = 0.0f;');
    const each = (write: () => void): void => {
      text.unroll('i', kept, () => {
        text.line(`const int at = threadIdx.x + ${block} * i;`);
        text.block(`if (at < ${width / 4})`, write);
      });
    };
    each(() => {
      text.line(`kept[i] = ((const float4*)${text.pointer(rows)})[row * ${width / 4} + at];`);
      writeSquares(text, 'kept[i]');
    });
    const epsilon = Math.fround(attributes.epsilon);
    text.line(`const float factor = 1.0f / sqrtf(blockSum(squares) / ${width} + ${epsilon}f);`);
    each(() => {
      text.line(`const float4 weight = ((const float4*)${text.pointer(weights)})[at];`);
      const values = ['x', 'y', 'z', 'w'].map((field) => `kept[i].${field} * factor * weight.${field}`);
      storeFour(text, result, `row * ${width} + 4 * at`, values);
    });
  });
}
