/**
 * CUDA code for one element of a tensor. Arithmetic, casts, views and look-ups are inlined into the kernel that needs
 * them; values in memory end the chain. Indices stay flat (row-major) until axes are needed, which avoids divisions.
 */
import { MistletoeError } from '../../../core/errors.js';
import { type Shape, equalShapes } from '../../../graph/dimension.js';
import type { Tensor, TensorOf } from '../../../graph/tensor.js';
import { type KernelOperand, type KernelText, roundOne, type ValueType } from './kernel-text.js';

export type ElementIndex = { readonly axes: readonly string[] } | { readonly flat: string };

/** Undefined if it is computed where it is needed. */
export type FindOperand = (tensor: Tensor) => KernelOperand | undefined;

/** Elements that the kernel has already computed, all at one flat index. */
export interface GivenElements {
  readonly at: string;
  readonly names: ReadonlyMap<Tensor, string>;
}

export const elementType = (tensor: Tensor): ValueType =>
  tensor.dtype === 'int32' || tensor.dtype === 'bool' ? 'int' : 'float';

export function axesOf(text: KernelText, index: ElementIndex, shape: Shape): readonly string[] {
  if ('axes' in index) return index.axes;
  const axes: string[] = new Array<string>(shape.length).fill('0');
  const real = shape.flatMap((dimension, axis) => (dimension === 1 ? [] : [axis]));
  let rest = index.flat;
  real.reverse().forEach((axis, position) => {
    const isFirst = position === real.length - 1;
    const size = text.dimension(shape[axis]!);
    axes[axis] = isFirst ? rest : text.define('int', `${rest} % ${size}`);
    if (!isFirst) rest = text.define('int', `${rest} / ${size}`);
  });
  return axes;
}

export function flatOf(text: KernelText, index: ElementIndex, shape: Shape): string {
  if ('flat' in index) return index.flat;
  let flat = '0';
  shape.forEach((dimension, axis) => {
    if (dimension === 1) return;
    const at = index.axes[axis]!;
    flat = flat === '0' ? at : text.define('int', `${flat} * ${text.dimension(dimension)} + ${at}`);
  });
  return flat;
}

/** Index into an operand that is broadcast. */
function repeated(text: KernelText, index: ElementIndex, from: Shape, to: Shape): ElementIndex {
  if (equalShapes(from, to)) return index;
  const axes = axesOf(text, index, to).slice(to.length - from.length);
  return { axes: from.map((dimension, axis) => (dimension === 1 ? '0' : axes[axis]!)) };
}

const arithmetic: Readonly<Record<string, (a: string, b: string, c: string) => string>> = {
  negate: (a) => `-${a}`,
  exponential: (a) => `expf(${a})`,
  logarithm: (a) => `logf(${a})`,
  reciprocalSquareRoot: (a) => `1.0f / sqrtf(${a})`,
  sigmoid: (a) => `1.0f / (1.0f + expf(-${a}))`,
  silu: (a) => `${a} / (1.0f + expf(-${a}))`,
  add: (a, b) => `${a} + ${b}`,
  subtract: (a, b) => `${a} - ${b}`,
  multiply: (a, b) => `${a} * ${b}`,
  divide: (a, b) => `${a} / ${b}`,
  maximum: (a, b) => `(${a} > ${b} || ${a} != ${a}) ? ${a} : ${b}`,
  minimum: (a, b) => `(${a} < ${b} || ${a} != ${a}) ? ${a} : ${b}`,
  greater: (a, b) => `${a} > ${b}`,
  equal: (a, b) => `${a} == ${b}`,
  select: (a, b, c) => `${a} != 0 ? ${b} : ${c}`,
};

export const isElementwise = ({ operation }: Tensor): boolean =>
  operation in arithmetic || operation === 'cast' || operation === 'stopGradient' || operation === 'reshape';

export const isWrittenInPlace = ({ operation }: Tensor): boolean =>
  operation in arithmetic || operation in views || operation === 'constant' || operation === 'cast';

type ViewCode<Name extends Tensor['operation']> = (
  code: ElementCode,
  tensor: TensorOf<Name>,
  index: ElementIndex,
) => string;

const views: { readonly [Name in Tensor['operation']]?: ViewCode<Name> } = {
  stopGradient: (code, { inputs: [x] }, index) => code.element(x!, index),
  reshape: (code, { inputs: [x], shape }, index) =>
    code.element(x!, { flat: flatOf(code.text, index, shape) }),
  broadcast: (code, { inputs: [x], shape }, index) =>
    code.element(x!, repeated(code.text, index, x!.shape, shape)),
  transpose: (code, { inputs: [x], attributes: { order }, shape }, index) => {
    const axes = axesOf(code.text, index, shape);
    return code.element(x!, { axes: x!.shape.map((_, axis) => axes[order.indexOf(axis)]!) });
  },
  slice: (code, { inputs: [x], attributes: { axis, start }, shape }, index) => {
    const axes = [...axesOf(code.text, index, shape)];
    axes[axis] = code.text.define('int', `${axes[axis]!} + ${code.text.dimension(start)}`);
    return code.element(x!, { axes });
  },
  pad: (code, { inputs: [x], attributes: { axis, before }, shape, ...tensor }, index) => {
    const axes = [...axesOf(code.text, index, shape)];
    axes[axis] = code.text.define('int', `${axes[axis]!} - ${code.text.dimension(before)}`);
    const isInside = `${axes[axis]} >= 0 && ${axes[axis]} < ${code.text.dimension(x!.shape[axis]!)}`;
    return code.choose(tensor.dtype === 'int32' ? 'int' : 'float', [
      { when: isInside, then: () => code.element(x!, { axes }) },
      { when: undefined, then: () => '0' },
    ]);
  },
  concatenate: (code, tensor, index) => {
    const { axis } = tensor.attributes;
    const axes = axesOf(code.text, index, tensor.shape);
    const starts = ['0'];
    for (const part of tensor.inputs.slice(0, -1)) {
      const [last, size] = [starts.at(-1)!, code.text.dimension(part.shape[axis]!)];
      starts.push(last === '0' ? size : code.text.define('int', `${last} + ${size}`));
    }
    // Binary search: a pass joins the outputs of all layers.
    const find = (from: number, until: number): string => {
      if (until - from === 1) {
        const own = [...axes];
        if (from > 0) own[axis] = code.text.define('int', `${axes[axis]!} - ${starts[from]!}`);
        return code.element(tensor.inputs[from]!, { axes: own });
      }
      const middle = (from + until) >> 1;
      return code.choose(elementType(tensor), [
        { when: `${axes[axis]!} < ${starts[middle]!}`, then: () => find(from, middle) },
        { when: undefined, then: () => find(middle, until) },
      ]);
    };
    return find(0, tensor.inputs.length);
  },
  gatherRows: (code, { inputs: [table, indices], shape }, index) => {
    const axes = axesOf(code.text, index, shape);
    const rank = indices!.shape.length;
    const row = code.element(indices!, { axes: axes.slice(0, rank) });
    const last = `${code.text.dimension(table!.shape[0]!)} - 1`;
    // A wrong index must not read foreign memory or end the process.
    const safe = code.text.define('int', `max(0, min(${row}, ${last}))`);
    return code.element(table!, { axes: [safe, ...axes.slice(rank)] });
  },
  pick: (code, { inputs: [x, indices], shape }, index) => {
    const axes = axesOf(code.text, index, shape);
    const chosen = code.element(indices!, { axes });
    const last = `${code.text.dimension(x!.shape.at(-1)!)} - 1`;
    const safe = code.text.define('int', `max(0, min(${chosen}, ${last}))`);
    return code.element(x!, { axes: [...axes, safe] });
  },
  oneHot: (code, { inputs: [indices], shape }, index) => {
    const axes = axesOf(code.text, index, shape);
    const one = code.element(indices!, { axes: axes.slice(0, -1) });
    return code.text.define('float', `${one} == ${axes.at(-1)!} ? 1.0f : 0.0f`);
  },
  rotate: (code, { inputs: [x, cosine, sine], shape }, index) => {
    const axes = axesOf(code.text, index, shape);
    const { text } = code;
    const half = text.dimension(cosine!.shape[1]!);
    const at = text.define('int', `${axes.at(-1)!} % (2 * ${half})`);
    const pair = text.define('int', `${at} % ${half}`);
    const first = text.define('int', `${axes.at(-1)!} - ${at} + ${pair}`);
    const second = text.define('int', `${first} + ${half}`);
    const element = (last: string): string => code.element(x!, { axes: [...axes.slice(0, -1), last] });
    const [a, b] = [element(first), element(second)];
    const [c, s] = [cosine!, sine!].map((angles) => code.element(angles, { axes: [axes[1]!, pair] }));
    return text.define(
      'float',
      `${at} < ${half} ? ${a} * ${c!} - ${b} * ${s!} : ${b} * ${c!} + ${a} * ${s!}`,
    );
  },
};

interface Choice {
  /** Undefined in the last: otherwise. */
  readonly when: string | undefined;
  readonly then: () => string;
}

export class ElementCode {
  constructor(
    readonly text: KernelText,
    private readonly find: FindOperand,
    private readonly given?: GivenElements,
  ) {}

  element(tensor: Tensor, index: ElementIndex): string {
    const { text } = this;
    const type = elementType(tensor);
    const known = this.given?.names.get(tensor);
    if (known !== undefined) {
      if ('flat' in index && index.flat === this.given!.at) return known;
      throw new MistletoeError('runtime', `An element of ${tensor.operation} at another place was needed.`);
    }
    const operand = this.find(tensor);
    if (operand !== undefined)
      return text.define(type, text.load(operand, flatOf(text, index, tensor.shape)));
    if (tensor.operation === 'constant') return literal(tensor);
    if (tensor.operation === 'cast') return this.cast(tensor, index);
    const compute = arithmetic[tensor.operation];
    if (compute !== undefined) {
      const [a = '', b = '', c = ''] = tensor.inputs.map((input) =>
        this.element(input, repeated(text, index, input.shape, tensor.shape)),
      );
      return text.define(type, compute(a, b, c));
    }
    const view = views[tensor.operation] as ViewCode<Tensor['operation']> | undefined;
    if (view !== undefined) return view(this, tensor, index);
    throw new MistletoeError('runtime', `No element of ${tensor.operation} can be computed by itself.`);
  }

  private cast(tensor: TensorOf<'cast'>, index: ElementIndex): string {
    const [x] = tensor.inputs;
    const value = this.element(x!, index);
    switch (tensor.attributes.dtype) {
      case 'float32':
        return this.text.define('float', `(float)${value}`);
      case 'int32':
        return this.text.define('int', `(int)${value}`);
      case 'bool':
        return this.text.define('int', `${value} != 0`);
      case 'bfloat16':
      case 'float16':
        return this.text.define('float', roundOne(tensor.attributes.dtype, `(float)${value}`));
    }
  }

  /** Evaluates one of several alternatives. */
  choose(type: ValueType, choices: readonly Choice[]): string {
    const { text } = this;
    const name = text.name('c');
    text.line(`${type} ${name};`);
    choices.forEach(({ when, then }, place) => {
      const head =
        when === undefined ? (place === 0 ? '' : 'else') : `${place === 0 ? '' : 'else '}if (${when})`;
      text.block(head, () => text.line(`${name} = ${then()};`));
    });
    return name;
  }
}

/** Larger constants are in memory. */
function literal({ attributes, dtype }: TensorOf<'constant'>): string {
  const [value = 0] = attributes.values;
  if (dtype === 'int32' || dtype === 'bool') return `(${Math.trunc(value)})`;
  if (Number.isNaN(value)) return 'NAN';
  if (!Number.isFinite(value)) return value > 0 ? 'INFINITY' : '(-INFINITY)';
  const text = String(Math.fround(value));
  return `(${/[.e]/.test(text) ? text : `${text}.0`}f)`;
}
