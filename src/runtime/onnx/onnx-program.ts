/**
 * A graph as an ONNX Runtime session. It reads host buffers in place. Outputs are arrays that no one else reads.
 */
import { describeCause, MistletoeError } from '../../core/errors.js';
import { evaluateDimension, formatShape, type Shape } from '../../graph/dimension.js';
import type { DType } from '../../graph/tensor.js';
import type { PreparationClock } from '../preparation-clock.js';
import { bindInputs, checkTypes, deliver, namesOf, type Wanted } from '../program-values.js';
import type {
  Destination,
  InputDescription,
  MixedValues,
  NamedValues,
  Program,
  ResidentValue,
  TensorValue,
} from '../program.js';
import { hostDataOf } from '../row-buffer.js';
import type { LoweredModel } from './lowering.js';
import {
  carrierOf,
  fromCarrier,
  type Session,
  type SessionResults,
  type SessionValue,
  toCarrier,
  type WantedOutput,
} from './session.js';

export class OnnxProgram implements Program {
  private released = false;

  readonly inputs: readonly InputDescription[];
  private readonly outputs: readonly string[];
  private readonly types: readonly SessionValue['type'][]; // of the inputs
  /** [output] */
  private readonly described: ReadonlyMap<string, DescribedOutput>;

  constructor(
    private readonly session: Session,
    model: LoweredModel,
    private readonly preparation: PreparationClock,
    /** True if no other program holds the session. */
    private readonly leave: () => boolean,
  ) {
    this.inputs = model.inputs;
    this.types = model.inputs.map(({ dtype }) => carrierOf(dtype));
    this.outputs = [...model.outputs.keys()];
    this.described = new Map(
      [...model.outputs].map(([name, { shape, dtype }], place) => [name, { place, shape, dtype }]),
    );
  }

  run(values: MixedValues, wanted?: readonly string[]): Promise<NamedValues>;
  run(values: MixedValues, wanted: Readonly<Record<string, Destination>>): Promise<MixedValues>;
  async run(given: MixedValues, wanted: Wanted = this.outputs): Promise<MixedValues> {
    if (this.released) throw new MistletoeError('runtime', 'The program was run after it was disposed of.');
    const sizes = bindInputs(this.inputs, given);
    checkTypes(this.inputs, given);
    const inputs = this.inputs.map((input, place) => this.read(input, place, given[input.name]!));
    const names = namesOf(wanted);
    const requests = names.map((name): WantedOutput => {
      const { place, shape, dtype } = this.described.get(name)!;
      const dims = shape.map((dimension) => evaluateDimension(dimension, sizes)!);
      return { place, type: carrierOf(dtype), dims };
    });
    let results: SessionResults;
    try {
      results = await this.preparation.running(() => this.session.run(inputs, requests));
    } catch (cause) {
      throw new MistletoeError('runtime', `ONNX Runtime failed in a run: ${describeCause(cause)}`, { cause });
    }
    const outputs: Record<string, TensorValue> = {};
    names.forEach((name, index) => {
      const { dtype } = this.described.get(name)!;
      outputs[name] = { data: fromCarrier(results[index]!, dtype), shape: requests[index]!.dims };
    });
    return deliver(outputs, wanted, (values) => {
      this.session.recycle?.(values);
    });
  }

  private read(
    { name, dtype }: InputDescription,
    place: number,
    value: TensorValue | ResidentValue,
  ): SessionValue {
    const isShared = 'buffer' in value;
    const data = isShared ? hostDataOf(value.buffer) : value.data;
    if (isShared && dtype !== 'float32') {
      throw new MistletoeError('runtime', `Input "${name}" is a buffer of float32, expected ${dtype}.`, {
        hint: 'Give the values as an array of the host.',
      });
    }
    if (data.length === 0) refuseEmpty(name, value.shape);
    return { type: this.types[place]!, data: toCarrier(data, dtype), dims: value.shape, isShared };
  }

  async dispose(): Promise<void> {
    if (this.released) return;
    this.released = true;
    if (this.leave()) await this.session.release();
  }
}

interface DescribedOutput {
  readonly place: number;
  readonly shape: Shape;
  readonly dtype: DType;
}

/** ONNX Runtime's matrix kernels crash on empty operands. */
function refuseEmpty(name: string, shape: readonly number[]): never {
  throw new MistletoeError(
    'runtime',
    `Input "${name}" has shape ${formatShape(shape)}, expected at least one value along every axis.`,
    { hint: 'Give one masked row where there is nothing yet.' },
  );
}
