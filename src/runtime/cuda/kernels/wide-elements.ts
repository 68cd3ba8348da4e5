/** Loads and stores of 16 bytes. */
import type { HalfType } from '../../../core/half-floats.js';
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
