/** Builds an ONNX model. Equal nodes (operator, inputs, attributes) are added once. */
import { MistletoeError } from '../../core/errors.js';
import { encodeHalves, isHalf } from '../../core/half-floats.js';
import { bareSymbol, formatDimension, type Dimension, type Shape } from '../../graph/dimension.js';
import type { DType } from '../../graph/tensor.js';
import { MessageWriter } from './protobuf.js';

/** Field numbers of onnx.proto. */
export const elementTypes = {
  float32: 1,
  uint8: 2,
  int32: 6,
  int64: 7,
  bool: 9,
  float16: 10,
  float64: 11,
  bfloat16: 16,
} as const;
export type ElementType = keyof typeof elementTypes;

type Attribute =
  | number
  | string
  | readonly number[]
  | { readonly float: number }
  | { readonly graph: MessageWriter };

export interface NodeOptions {
  readonly attributes?: Readonly<Record<string, Attribute>> | undefined;
  readonly domain?: 'com.microsoft' | undefined;
  readonly outputs?: number | undefined;
  /** Outputs that are not computed. */
  readonly unused?: readonly number[] | undefined;
}

export interface ExternalWeight {
  readonly location: string;
  readonly offsetBytes: number;
  readonly sizeBytes: number;
  /** Packed copies in the same file (packed-weights.ts). */
  readonly copies?: readonly string[] | undefined;
}

/** Prefixes avoid collisions between names given by callers and names used inside. */
export const inputName = (name: string): string => `input:${name}`;
export const outputName = (name: string): string => `output:${name}`;
const weightName = (name: string): string => `weight:${name}`;

const opset = 20;
const irVersion = 10;

export class OnnxBuilder {
  private nodes: MessageWriter[] = [];
  private readonly initializers: MessageWriter[] = [];
  private readonly inputs: MessageWriter[] = [];
  private readonly outputs: MessageWriter[] = [];
  private memo = new Map<string, readonly string[]>();
  private readonly symbols = new Map<string, { input: string; axis: number }>();
  private count = 0;

  get nodeCount(): number {
    return this.nodes.length;
  }

  input(name: string, shape: Shape, dtype: DType): string {
    const input = inputName(name);
    this.inputs.push(describeValue(input, shape, dtype));
    shape.forEach((dimension, axis) => {
      const symbol = bareSymbol(dimension);
      if (symbol !== undefined && !this.symbols.has(symbol)) this.symbols.set(symbol, { input, axis });
    });
    return input;
  }

  output(name: string, from: string, shape: Shape, dtype: DType): void {
    const output = outputName(name);
    this.nodes.push(writeNode('Identity', [from], [output], {}));
    this.outputs.push(describeValue(output, shape, dtype));
  }

  /** A value as an output under its own name. */
  plainOutput(name: string, shape: Shape, dtype: DType): void {
    this.outputs.push(describeValue(name, shape, dtype));
  }

  node(operator: string, inputs: readonly string[], options: NodeOptions = {}): string {
    return this.nodeOutputs(operator, inputs, options)[0]!;
  }

  /** A separate node, so that its result is not kept between distant uses. */
  freshNode(operator: string, inputs: readonly string[], options: NodeOptions = {}): string {
    const output = `t${this.count++}`;
    this.nodes.push(writeNode(operator, inputs, [output], options));
    return output;
  }

  nodeOutputs(operator: string, inputs: readonly string[], options: NodeOptions = {}): readonly string[] {
    const key = JSON.stringify([operator, inputs, options]);
    const known = this.memo.get(key);
    if (known !== undefined) return known;
    const outputs = Array.from({ length: options.outputs ?? 1 }, (_, index) =>
      options.unused?.includes(index) === true ? '' : `t${this.count++}`,
    );
    this.nodes.push(writeNode(operator, inputs, outputs, options));
    this.memo.set(key, outputs);
    return outputs;
  }

  /**
   * A Loop that updates one value; its body may read any value outside.
   * @param trips an int64 scalar
   */
  loop(
    trips: string,
    initial: string,
    { shape, dtype }: { readonly shape: Shape; readonly dtype: DType },
    write: (trip: string, value: string) => string,
  ): string {
    const [nodes, memo] = [this.nodes, this.memo];
    const [trip, going, value, stillGoing, next] = Array.from({ length: 5 }, () => `t${this.count++}`);
    this.nodes = [];
    // The body sees what is known outside; what it computes itself stays inside.
    this.memo = new Map(memo);
    const result = write(trip!, value!);
    const body = [
      ...this.nodes,
      writeNode('Identity', [going!], [stillGoing!], {}),
      writeNode('Identity', [result], [next!], {}),
    ];
    [this.nodes, this.memo] = [nodes, memo];
    const graph = new MessageWriter();
    for (const node of body) graph.message(1, node);
    graph
      .string(2, `loop ${trip!}`)
      .message(11, describeValue(trip!, [], 'int64'))
      .message(11, describeValue(going!, [], 'bool'))
      .message(11, describeValue(value!, shape, dtype))
      .message(12, describeValue(stillGoing!, [], 'bool'))
      .message(12, describeValue(next!, shape, dtype));
    const always = this.constant('bool', [1], []);
    return this.freshNode('Loop', [trips, always, initial], { attributes: { body: { graph } } });
  }

  floats(values: readonly number[], shape: readonly number[]): string {
    return this.initializer('float32', shape, new Uint8Array(Float32Array.from(values).buffer));
  }

  constant(dtype: DType, values: readonly number[], shape: readonly number[]): string {
    if (dtype === 'float32') return this.floats(values, shape);
    if (isHalf(dtype)) {
      return this.initializer(dtype, shape, new Uint8Array(encodeHalves(values, dtype).buffer));
    }
    const raw = dtype === 'bool' ? Uint8Array.from(values) : new Uint8Array(Int32Array.from(values).buffer);
    return this.initializer(dtype, shape, raw);
  }

  integers(values: readonly number[], shape: readonly number[] = [values.length]): string {
    return this.initializer('int64', shape, new Uint8Array(BigInt64Array.from(values, BigInt).buffer));
  }

  weight(
    given: string,
    shape: readonly number[],
    type: ElementType,
    source: ExternalWeight | Uint8Array,
  ): string {
    const name = weightName(given);
    const tensor = new MessageWriter().integers(1, shape).integer(2, elementTypes[type]).string(8, name);
    if (source instanceof Uint8Array) {
      tensor.bytes(9, source);
    } else {
      const entry = (key: string, value: string) => new MessageWriter().string(1, key).string(2, value);
      tensor
        .message(13, entry('location', source.location))
        .message(13, entry('offset', String(source.offsetBytes)))
        .message(13, entry('length', String(source.sizeBytes)))
        .integer(14, 1);
      source.copies?.forEach((copy, index) => tensor.message(13, entry(`prepacked_${index}`, copy)));
    }
    this.initializers.push(tensor);
    return name;
  }

  /** An int64 vector of length 1, from the inputs' shapes if symbolic. */
  dimension(dimension: Dimension): string {
    if (typeof dimension === 'number') return this.integers([dimension]);
    const terms = dimension.terms.map(({ coefficient, symbols }) => {
      const factors = symbols.map((name) => this.symbolValue(name));
      if (coefficient !== 1 || factors.length === 0) factors.unshift(this.integers([coefficient]));
      return factors.reduce((left, right) => this.node('Mul', [left, right]));
    });
    return terms.reduce((left, right) => this.node('Add', [left, right]));
  }

  /** For Reshape and Expand: constant if possible. */
  shape(shape: Shape, allowInferred: boolean): string {
    const symbolic = shape.filter((dimension) => typeof dimension !== 'number').length;
    if (symbolic === 0 || (symbolic === 1 && allowInferred)) {
      return this.integers(shape.map((dimension) => (typeof dimension === 'number' ? dimension : -1)));
    }
    const parts = shape.map((dimension) => this.dimension(dimension));
    return this.node('Concat', parts, { attributes: { axis: 0 } });
  }

  private symbolValue(name: string): string {
    const source = this.symbols.get(name);
    if (source === undefined) {
      throw new MistletoeError(
        'shape',
        `The graph needs the length "${name}", which no input has as a dimension of its own.`,
      );
    }
    const attributes = { start: source.axis, end: source.axis + 1 };
    return this.node('Shape', [source.input], { attributes });
  }

  private initializer(type: ElementType, shape: readonly number[], raw: Uint8Array): string {
    // Bytes, because JSON writes infinities and NaN as null.
    const key = JSON.stringify(['constant', type, shape, Buffer.from(raw).toString('base64')]);
    const known = this.memo.get(key);
    if (known !== undefined) return known[0]!;
    const name = `c${this.count++}`;
    this.initializers.push(
      new MessageWriter().integers(1, shape).integer(2, elementTypes[type]).string(8, name).bytes(9, raw),
    );
    this.memo.set(key, [name]);
    return name;
  }

  finish(): Uint8Array {
    const graph = new MessageWriter();
    for (const node of this.nodes) graph.message(1, node);
    graph.string(2, 'mistletoe');
    for (const initializer of this.initializers) graph.message(5, initializer);
    for (const input of this.inputs) graph.message(11, input);
    for (const output of this.outputs) graph.message(12, output);
    return new MessageWriter()
      .integer(1, irVersion)
      .string(2, 'mistletoe')
      .message(7, graph)
      .message(8, new MessageWriter().string(1, '').integer(2, opset))
      .message(8, new MessageWriter().string(1, 'com.microsoft').integer(2, 1))
      .finish();
  }
}

function writeNode(
  operator: string,
  inputs: readonly string[],
  outputs: readonly string[],
  options: NodeOptions,
): MessageWriter {
  const node = new MessageWriter();
  for (const name of inputs) node.string(1, name);
  for (const name of outputs) node.string(2, name);
  node.string(3, `${operator}:${outputs[0] ?? ''}`).string(4, operator);
  for (const [name, value] of Object.entries(options.attributes ?? {}))
    node.message(5, writeAttribute(name, value));
  if (options.domain !== undefined) node.string(7, options.domain);
  return node;
}

function writeAttribute(name: string, value: Attribute): MessageWriter {
  const attribute = new MessageWriter().string(1, name);
  if (typeof value === 'number') return attribute.integer(3, value).integer(20, 2);
  if (typeof value === 'string') return attribute.string(4, value).integer(20, 3);
  if ('graph' in value) return attribute.message(6, value.graph).integer(20, 5);
  if ('float' in value) return attribute.float(2, value.float).integer(20, 1);
  return attribute.integers(8, value).integer(20, 7);
}

function describeValue(name: string, shape: Shape, dtype: ElementType): MessageWriter {
  const dimensions = new MessageWriter();
  for (const dimension of shape) {
    const entry = new MessageWriter();
    if (typeof dimension === 'number') entry.integer(1, dimension);
    else entry.string(2, formatDimension(dimension));
    dimensions.message(1, entry);
  }
  const tensorType = new MessageWriter().integer(1, elementTypes[dtype]).message(2, dimensions);
  return new MessageWriter().string(1, name).message(2, new MessageWriter().message(1, tensorType));
}
