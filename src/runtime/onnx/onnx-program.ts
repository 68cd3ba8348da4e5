/**
 * A graph as an ONNX Runtime session. It reads host buffers in place and copies outputs into fresh arrays.
 */
import { describeCause, MistletoeError } from '../../core/errors.js';
import { evaluateDimension, formatShape } from '../../graph/dimension.js';
import { bindInputs, checkTypes, deliver, namesOf, toHostValues, type Wanted } from '../program-values.js';
import type {
  Destination,
  InputDescription,
  MixedValues,
  NamedValues,
  Program,
  TensorValue,
} from '../program.js';
import { inputName, outputName } from './builder.js';
import { carrierOf, fromCarrier, type Session, type SessionValue, toCarrier } from './session.js';
import type { LoweredModel } from './lowering.js';

/** ONNX Runtime's matrix kernels crash on empty operands. */
function refuseEmptyInputs(inputs: readonly InputDescription[], values: NamedValues): void {
  for (const { name } of inputs) {
    const { data, shape } = values[name]!;
    if (data.length > 0) continue;
    throw new MistletoeError(
      'runtime',
      `Input "${name}" has shape ${formatShape(shape)}, expected at least one value along every axis.`,
      { hint: 'Give one masked row where there is nothing yet.' },
    );
  }
}

export class OnnxProgram implements Program {
  private released = false;

  readonly inputs: readonly InputDescription[];
  private readonly outputs: readonly string[];
  private readonly described: LoweredModel['outputs'];

  constructor(
    private readonly session: Session,
    model: LoweredModel,
    /** True if no other program holds the session. */
    private readonly leave: () => boolean,
  ) {
    this.inputs = model.inputs;
    this.described = model.outputs;
    this.outputs = [...model.outputs.keys()];
  }

  run(values: MixedValues, wanted?: readonly string[]): Promise<NamedValues>;
  run(values: MixedValues, wanted: Readonly<Record<string, Destination>>): Promise<MixedValues>;
  async run(given: MixedValues, wanted: Wanted = this.outputs): Promise<MixedValues> {
    if (this.released) throw new MistletoeError('runtime', 'The program was run after it was disposed of.');
    const values = toHostValues(given);
    const sizes = bindInputs(this.inputs, values);
    checkTypes(this.inputs, values);
    refuseEmptyInputs(this.inputs, values);
    const feeds: Record<string, SessionValue> = {};
    for (const { name, dtype } of this.inputs) {
      const value = toCarrier(values[name]!, dtype);
      feeds[inputName(name)] = 'buffer' in given[name]! ? { ...value, isShared: true } : value;
    }
    const names = namesOf(wanted);
    const requests = names.map((name) => {
      const { shape, dtype } = this.described.get(name)!;
      const dims = shape.map((dimension) => evaluateDimension(dimension, sizes)!);
      return { name: outputName(name), type: carrierOf(dtype), dims };
    });
    let results;
    try {
      results = await this.session.run(feeds, requests);
    } catch (cause) {
      throw new MistletoeError('runtime', `ONNX Runtime failed in a run: ${describeCause(cause)}`, { cause });
    }
    const outputs: Record<string, TensorValue> = {};
    for (const name of names) {
      outputs[name] = fromCarrier(results[outputName(name)]!, this.described.get(name)!.dtype);
    }
    return deliver(outputs, wanted);
  }

  async dispose(): Promise<void> {
    if (this.released) return;
    this.released = true;
    if (this.leave()) await this.session.release();
  }
}
