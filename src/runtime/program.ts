/**
 * The seam between graphs and machines. A runtime compiles named outputs into a program; a program maps named inputs
 * to named outputs and keeps no state between runs. Inputs are host arrays or buffers of the runtime, read during the
 * run; outputs are fresh host arrays, fresh buffers, or go into a given buffer, and belong to the caller.
 */
import { MistletoeError } from '../core/errors.js';
import type { Shape } from '../graph/dimension.js';
import type { DType, Tensor } from '../graph/tensor.js';
import type { RowBuffer } from './row-buffer.js';
import type { WeightStore } from './weights.js';

/** A value in the host's memory. */
export interface TensorValue {
  readonly shape: readonly number[];
  /** float32, int32, bool; the bits of bfloat16 and float16 */
  readonly data: Float32Array | Int32Array | Uint8Array | Uint16Array;
}

/** A value that stays with the runtime: all of the buffer's rows, float32. */
export interface ResidentValue {
  readonly shape: readonly number[];
  readonly buffer: RowBuffer;
}

export type NamedTensors = Readonly<Record<string, Tensor>>;
export type NamedValues = Readonly<Record<string, TensorValue>>;
export type MixedValues = Readonly<Record<string, TensorValue | ResidentValue>>;

/** Where an output goes: into a host array, into a fresh buffer of the runtime, or into a given one. */
export type Destination = 'host' | 'runtime' | RowBuffer;

export interface Program {
  readonly inputs: readonly InputDescription[];
  /** Computes the named outputs, or all of them. */
  run(inputs: MixedValues, outputs?: readonly string[]): Promise<NamedValues>;
  run(inputs: MixedValues, outputs: Readonly<Record<string, Destination>>): Promise<MixedValues>;
  dispose(): Promise<void>;
}

export interface InputDescription {
  readonly name: string;
  readonly shape: Shape;
  readonly dtype: DType;
}

export interface CompileOptions {
  /** The program runs often on few rows (decoding): a runtime may keep weights in an order that is faster for that. */
  readonly packed?: boolean;
}

export interface Runtime {
  readonly name: string;
  /** It takes weights as checkpoints hold them (CheckpointWeights), so that nobody converts them first. */
  readonly readsCheckpoints?: boolean;
  /**
   * Bytes of float32 weights above which it takes matrices in 16 bits where a checkpoint has them so: it keeps a copy for
   * its kernels on the disk besides, and reads the others rarely.
   */
  readonly keepsHalvesAbove?: number;
  /** Rows that a pass over many sequences should have, where fewer would leave part of a device idle. */
  readonly rowsPerPass?: number;
  /** Tokens are better drawn by a program where their scores lie than by the host, which would have to fetch whole rows. */
  readonly drawsInPrograms?: boolean;
  /** Rows of zeros. */
  allocate(rowCount: number, width: number): RowBuffer;
  compile(
    outputs: NamedTensors,
    weights?: readonly WeightStore[],
    options?: CompileOptions,
  ): Promise<Program>;
  dispose(): Promise<void>;
}

export function float32(data: Float32Array, shape: readonly number[]): TensorValue {
  return { data, shape };
}

export function int32(
  data: Int32Array | readonly number[],
  shape: readonly number[] = [data.length],
): TensorValue {
  return { data: data instanceof Int32Array ? data : Int32Array.from(data), shape };
}

/** All rows of a buffer; one axis of rows and one of their values unless told. */
export function resident(
  buffer: RowBuffer,
  shape: readonly number[] = [buffer.rowCount, buffer.width],
): ResidentValue {
  return { buffer, shape };
}

/** The picked rows of a buffer, in the given order, in a buffer of their own. */
export function pickRows(runtime: Runtime, source: RowBuffer, picks: ArrayLike<number>): RowBuffer {
  const picked = runtime.allocate(picks.length, source.width);
  const places = Int32Array.from({ length: picks.length }, (_, place) => place);
  picked.copyRows(source, picks, places);
  return picked;
}

/** The float32 output of that name; asking for another is a mistake in the caller. */
export function floatsOf(values: MixedValues, name: string): Float32Array {
  const data = hostArrayOf(values[name]);
  if (data instanceof Float32Array) return data;
  throw new MistletoeError(
    'runtime',
    `The program has no float32 output "${name}"; it has ${Object.keys(values).join(', ')}.`,
  );
}

/** The output of that name, which stayed with the runtime. */
export function bufferOf(values: MixedValues, name: string): RowBuffer {
  const value = values[name];
  if (value !== undefined && 'buffer' in value) return value.buffer;
  throw new MistletoeError('runtime', `The program left no output "${name}" with the runtime.`);
}

const hostArrayOf = (value: TensorValue | ResidentValue | undefined): TensorValue['data'] | undefined =>
  value !== undefined && 'data' in value ? value.data : undefined;

export function integersOf(values: MixedValues, name: string): Int32Array {
  const data = hostArrayOf(values[name]);
  if (data instanceof Int32Array) return data;
  throw new MistletoeError(
    'runtime',
    `The program has no int32 output "${name}"; it has ${Object.keys(values).join(', ')}.`,
  );
}
