/**
 * The text of one kernel while it is written: parameters in order of first use, symbols, and statements in nested
 * scopes, so that a computed value is reused while in scope. Names depend only on the order of use, so equal work
 * gives equal text, which is compiled once.
 */
import { type HalfType, isHalf } from '../../../core/half-floats.js';
import type { Dimension, Shape } from '../../../graph/dimension.js';
import type { ElementType } from '../driver/device.js';

const sizes: Readonly<Record<ElementType, number>> = {
  float32: 4,
  bfloat16: 2,
  float16: 2,
  int32: 4,
  bool: 1,
};

export const bytesOf = (type: ElementType): number => sizes[type];

/** A piece of memory, identified by `key`. */
export interface KernelOperand {
  readonly key: object;
  readonly type: ElementType;
}

export const storageTypes: Readonly<Record<ElementType, string>> = {
  float32: 'float',
  bfloat16: 'unsigned short',
  float16: 'unsigned short',
  int32: 'int',
  bool: 'unsigned char',
};

export function narrow(type: ElementType, value: string): string {
  if (type === 'bool') return `(${value}) != 0`;
  return type === 'bfloat16' ? `toBfloat16(${value})` : type === 'float16' ? `toFloat16(${value})` : value;
}

/** Four adjacent values in a register or two. */
export const fourOf = (type: ElementType): string => (isHalf(type) ? 'uint2' : 'float4');

/** A float4 of them. */
export const widen = (type: ElementType, four: string): string =>
  isHalf(type) ? `widen${halfNames[type]}(${four})` : four;

/** A float4 as it is after storing and reading it. */
export const round = (type: ElementType, four: string): string =>
  isHalf(type) ? `round${halfNames[type]}(${four})` : four;

export const roundOne = (type: ElementType, value: string): string =>
  isHalf(type) ? `from${halfNames[type]}(to${halfNames[type]}(${value}))` : value;

const halfNames = { bfloat16: 'Bfloat16', float16: 'Float16' } as const satisfies Record<HalfType, string>;

export type ValueType = 'float' | 'int';

interface Scope {
  readonly lines: string[];
  readonly known: Map<string, string>;
}

export class KernelText {
  readonly operands: KernelOperand[] = [];
  /** Passed as s0, s1, ... */
  readonly symbols: string[] = [];
  private readonly scopes: Scope[] = [{ lines: [], known: new Map() }];
  private names = 0;
  /** Where the kernel waits for the one before, and how many operands it has used by then. */
  private wait = { line: 0, constants: 0 };

  pointer(operand: KernelOperand): string {
    const known = this.operands.findIndex(({ key, type }) => key === operand.key && type === operand.type);
    if (known >= 0) return `p${known}`;
    this.operands.push(operand);
    return `p${this.operands.length - 1}`;
  }

  load(operand: KernelOperand, at: string): string {
    const element = `${this.pointer(operand)}[${at}]`;
    if (operand.type === 'bfloat16') return `fromBfloat16(${element})`;
    return operand.type === 'float16' ? `fromFloat16(${element})` : element;
  }

  store(operand: KernelOperand, at: string, value: string): this {
    return this.line(`${this.pointer(operand)}[${at}] = ${narrow(operand.type, value)};`);
  }

  dimension(dimension: Dimension): string {
    if (typeof dimension === 'number') return String(dimension);
    const terms = dimension.terms.map(({ coefficient, symbols }) => {
      const factors = symbols.map((name) => this.symbol(name));
      return (coefficient === 1 && factors.length > 0 ? factors : [String(coefficient), ...factors]).join(
        ' * ',
      );
    });
    return terms.length === 1 && dimension.terms[0]!.symbols.length === 1 && terms[0]!.startsWith('s')
      ? terms[0]!
      : `(${terms.join(' + ')})`;
  }

  count(shape: Shape): string {
    const factors = shape
      .filter((dimension) => dimension !== 1)
      .map((dimension) => this.dimension(dimension));
    return factors.length === 0 ? '1' : factors.join(' * ');
  }

  private symbol(name: string): string {
    const known = this.symbols.indexOf(name);
    if (known >= 0) return `s${known}`;
    this.symbols.push(name);
    return `s${this.symbols.length - 1}`;
  }

  line(text: string): this {
    this.scopes.at(-1)!.lines.push(`${'  '.repeat(this.scopes.length)}${text}`);
    return this;
  }

  /**
   * The kernel waits here for the end of the one before (device-code.ts), not at its beginning. What it uses until then
   * must be constant.
   */
  waitHere(): void {
    this.wait = { line: this.scopes[0]!.lines.length, constants: this.operands.length };
  }

  name(prefix: string): string {
    return `${prefix}${this.names++}`;
  }

  /** Reuses the variable if the expression was computed before. */
  define(type: ValueType, expression: string): string {
    if (/^(?:\w+|-?\d+)$/.test(expression)) return expression;
    const key = `${type} ${expression}`;
    for (const { known } of this.scopes) {
      const found = known.get(key);
      if (found !== undefined) return found;
    }
    const name = this.name(type === 'int' ? 'i' : 'v');
    this.line(`const ${type} ${name} = ${expression};`);
    this.scopes.at(-1)!.known.set(key, name);
    return name;
  }

  /** Values computed inside are out of scope afterwards. */
  block(head: string, write: () => void): this {
    this.line(`${head} {`);
    this.scopes.push({ lines: [], known: new Map() });
    write();
    const { lines } = this.scopes.pop()!;
    this.scopes.at(-1)!.lines.push(...lines);
    return this.line('}');
  }

  unroll(index: string, count: number, write: () => void): this {
    this.line('#pragma unroll');
    return this.block(`for (int ${index} = 0; ${index} < ${count}; ${index}++)`, write);
  }

  /**
   * The whole kernel; its first parameter holds the symbols' values.
   * @param bounds max threads per block and min blocks per processor, for the register limit
   */
  finish(name: string, written: ReadonlySet<object>, bounds: readonly number[] = []): string {
    const bound = bounds.length === 0 ? '' : `__launch_bounds__(${bounds.join(', ')}) `;
    const parameters = this.operands.map(
      ({ key, type }, index) =>
        `${written.has(key) ? '' : 'const '}${storageTypes[type]}* __restrict__ p${index}`,
    );
    const symbols = this.symbols.map((_, index) => `  const int s${index} = symbols[${index}];`);
    const { line, constants } = this.wait;
    const read = this.operands.map(({ key }, index) =>
      index < constants || written.has(key) ? [] : [`p${index}`],
    );
    const { lines } = this.scopes[0]!;
    return [
      `extern "C" __global__ ${bound}void ${name}(${['const int* symbols', ...parameters].join(', ')}) {`,
      ...symbols,
      ...lines.slice(0, line),
      `  waitForEarlier(${read.flat().join(', ')});`,
      ...lines.slice(line),
      '}',
      '',
    ].join('\n');
  }
}
