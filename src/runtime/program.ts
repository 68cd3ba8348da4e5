/**
 * The interface between graphs and machines. A program maps named inputs to named outputs and has no state. Inputs
 * are host arrays or buffers; outputs are fresh arrays, fresh buffers or given buffers, and belong to the caller.
 */
import { MistletoeError } from '../core/errors.js';
import type { HalfType } from '../core/half-floats.js';
import type { Shape } from '../graph/dimension.js';
import type { DType, Tensor } from '../graph/tensor.js';
import type { RowBuffer } from './row-buffer.js';
import type { QuantizedType, WeightStore } from './weights.js';

export interface TensorValue {
  readonly shape: readonly number[];
  /** float32, int32, bool; the bits of bfloat16 and float16 */
  readonly data: Float32Array | Int32Array | Uint8Array | Uint16Array;
}

/**
 * Stays in the runtime: all rows of the buffer, whose values have four bytes: a float32, or the bits of an int32 or of
 * two halves.
 */
export interface ResidentValue {
  readonly shape: readonly number[];
  readonly buffer: RowBuffer;
}

export type NamedTensors = Readonly<Record<string, Tensor>>;
export type NamedValues = Readonly<Record<string, TensorValue>>;
export type MixedValues = Readonly<Record<string, TensorValue | ResidentValue>>;

export type Destination = 'host' | 'runtime' | RowBuffer;

export interface Program {
  readonly inputs: readonly InputDescription[];
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
  /** Often run on few rows (decoding): weights may be packed for that. */
  readonly packed?: boolean | undefined;
}

export interface Runtime {
  readonly name: string;
  readonly readsCheckpoints?: boolean | undefined;
  /**
   * Above this many bytes of float32 weights, it takes matrices in 16 bits, because it keeps a packed copy on disk.
   */
  readonly keepsHalvesAbove?: number | undefined;
  /** Rows per pass that keep the device busy. */
  readonly rowsPerPass?: number | undefined;
  /** Programs draw tokens, so that rows of logits stay on the device. */
  readonly drawsInPrograms?: boolean | undefined;
  /** Attention of one sequence reads keys and values head by head, and writes new ones into the given buffer. */
  readonly attendsInPlace?: ((headSize: number) => boolean) | undefined;
  /** Buffers may hold tokens (the bits of int32), so that a program starts before the host knows what it reads. */
  readonly keepsTokens?: boolean | undefined;
  /** Runs so far that first compiled kernels, laid out memory, or were recorded. */
  readonly preparedRuns?: number | undefined;
  /**
   * Rounds the rows of products to 8 bits, so the last bits of a sum, which depend on the rows of a pass, can change
   * tokens.
   */
  readonly quantization?: QuantizedType | undefined;
  /** Time so far spent on programs before they compute (preparation-clock.ts). */
  readonly preparationMs?: number | undefined;
  /** Of keys and values; default float32. */
  readonly cacheType?: HalfType | undefined;
  /** Zeros. */
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

export function resident(
  buffer: RowBuffer,
  shape: readonly number[] = [buffer.rowCount, buffer.width],
): ResidentValue {
  return { buffer, shape };
}

export function pickRows(runtime: Runtime, source: RowBuffer, picks: ArrayLike<number>): RowBuffer {
  const picked = runtime.allocate(picks.length, source.width);
  const places = Int32Array.from({ length: picks.length }, (_, place) => place);
  picked.copyRows(source, picks, places);
  return picked;
}

export function floatsOf(values: MixedValues, name: string): Float32Array {
  const value = values[name];
  if (value !== undefined && 'data' in value && value.data instanceof Float32Array) return value.data;
  throw lacksOutput(`float32 output "${name}"`, values);
}

export function integersOf(values: MixedValues, name: string): Int32Array {
  const value = values[name];
  if (value !== undefined && 'data' in value && value.data instanceof Int32Array) return value.data;
  throw lacksOutput(`int32 output "${name}"`, values);
}

function lacksOutput(wanted: string, values: MixedValues): MistletoeError {
  const names = Object.keys(values).join(', ');
  return new MistletoeError('runtime', `The program has no ${wanted}; it has ${names}.`);
}

export function bufferOf(values: MixedValues, name: string): RowBuffer {
  const value = values[name];
  if (value !== undefined && 'buffer' in value) return value.buffer;
  throw new MistletoeError('runtime', `The program left no output "${name}" with the runtime.`);
}

class DeviceError extends MistletoeError {
  constructor(message: string, hint: string) {
    super('runtime', message, { hint });
  }
}

/** The request does not fit; a smaller one may. */
export class OutOfMemoryError extends DeviceError {}

export class DeviceLostError extends DeviceError {}

/** For cleanup: nothing is left to free on a lost device. */
export function ignoreLoss(cause: unknown): void {
  if (!(cause instanceof DeviceLostError)) throw cause;
}
