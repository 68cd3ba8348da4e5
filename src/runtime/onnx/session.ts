import { decodeHalves, encodeHalves, isHalf } from '../../core/half-floats.js';
import { cast } from '../../graph/operations/elementwise.js';
import { input, type DType } from '../../graph/tensor.js';
import type { RewriteRule } from '../../graph/simplify.js';
import type { NamedTensors, TensorValue } from '../program.js';
import type { UpdatedInput } from './attention-in-place.js';

/**
 * A session whose products read packed copies from a file (packed-weights.ts). If ONNX Runtime does not find a copy,
 * the product is NaN, so the first values of every output are checked. On NaN, a session with the plain weights takes
 * over and recomputes.
 */
export class CheckedSession implements Session {
  private readonly checked = new Set<number>();
  private replacement: Promise<Session> | undefined;

  constructor(
    private readonly packed: Session,
    private readonly loadReplacement: () => Promise<Session>,
  ) {}

  async run(inputs: readonly SessionValue[], outputs: readonly WantedOutput[]): Promise<SessionResults> {
    if (this.replacement === undefined) {
      const results = await this.packed.run(inputs, outputs);
      // An output without values proves nothing.
      const isUnchecked = ({ place }: WantedOutput, index: number): boolean =>
        !this.checked.has(place) && results[index]!.length > 0;
      if (!outputs.some((output, index) => isUnchecked(output, index) && hasNaN(results[index]!))) {
        for (const [index, output] of outputs.entries())
          if (isUnchecked(output, index)) this.checked.add(output.place);
        return results;
      }
      this.replacement ??= this.loadReplacement();
    }
    return (await this.replacement).run(inputs, outputs);
  }

  recycle(values: Float32Array): void {
    this.packed.recycle?.(values);
  }

  async release(): Promise<void> {
    // Other runs of the packed session may have been in progress.
    await this.packed.release();
    await (await this.replacement)?.release();
  }
}

function hasNaN(data: SessionData): boolean {
  return data instanceof Float32Array && data.some(Number.isNaN);
}

export type SessionData = Float32Array | Int32Array | Uint8Array;

export interface SessionValue {
  readonly type: 'float32' | 'int32' | 'bool';
  readonly data: SessionData;
  readonly dims: readonly number[];
  /** In a buffer of the runtime, which is read in place. */
  readonly isShared: boolean;
}

export interface WantedOutput {
  /** Among the session's outputs. */
  readonly place: number;
  readonly type: SessionValue['type'];
  readonly dims: readonly number[];
}

/** In the order in which they were wanted. */
export type SessionResults = readonly SessionData[];

/** The names of all inputs and outputs; what is updated counts as input only. */
export interface SessionSignature {
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  /** Inputs that a run writes. */
  readonly updates: readonly UpdatedInput[];
}

export interface SessionOptions {
  readonly threads: number;
  /** Entries of ONNX Runtime's session configuration. */
  readonly configuration: Readonly<Record<string, string>>;
  readonly externalData?: readonly { readonly path: string; readonly data: Uint8Array }[] | undefined;
}

export interface Session {
  /** Takes all inputs in order. */
  run(inputs: readonly SessionValue[], outputs: readonly WantedOutput[]): Promise<SessionResults>;
  /** Values of a result that nobody reads any more. */
  recycle?(values: Float32Array): void;
  release(): Promise<void>;
}

// onnxruntime-node has no bfloat16 tensors, and its float16 type depends on the Node version. Both cross the border
// as float32 and are converted inside the program.
export const carrierOf = (dtype: DType): SessionValue['type'] => (isHalf(dtype) ? 'float32' : dtype);

export const carryInput: RewriteRule = (tensor) =>
  tensor.operation === 'input' && isHalf(tensor.dtype)
    ? cast(input(tensor.attributes.name, tensor.shape), tensor.dtype)
    : undefined;

export function carryOutputs(outputs: NamedTensors): NamedTensors {
  return Object.fromEntries(
    Object.entries(outputs).map(([name, tensor]) => [
      name,
      isHalf(tensor.dtype) ? cast(tensor, 'float32') : tensor,
    ]),
  );
}

/** Only half types are given as bits. */
export function toCarrier(data: TensorValue['data'], dtype: DType): SessionData {
  return isHalf(dtype) ? decodeHalves(data as Uint16Array, dtype) : (data as SessionData);
}

export function fromCarrier(data: SessionData, dtype: DType): TensorValue['data'] {
  return isHalf(dtype) ? encodeHalves(data, dtype) : data;
}
