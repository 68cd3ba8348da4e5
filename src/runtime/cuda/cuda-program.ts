/**
 * A graph as work for a device. A run sends everything that comes from the host in one piece (inputs, and the lengths
 * that kernels read), launches its steps, and waits only if the host wants something back.
 */
import { MistletoeError } from '../../core/errors.js';
import type { Wanted } from '../host-values.js';
import { namesOf } from '../host-values.js';
import { bindInputs, checkTypes } from '../program-inputs.js';
import type {
  Destination,
  InputDescription,
  MixedValues,
  NamedValues,
  Program,
  ResidentValue,
  TensorValue,
} from '../program.js';
import { resident } from '../program.js';
import type { DeviceMemory } from './device-memory.js';
import { allocateRows, deviceRowsOf } from './device-rows.js';
import type { Address, Kernel } from './device.js';
import { alignBytes } from './memory-plan.js';
import type { LaidStep, OutputKind, RunLayout } from './run-layout.js';
import { planRun, RunLayouts } from './run-layout.js';
import type { Place, Schedule } from './schedule.js';

export interface ProgramParts {
  readonly inputs: readonly InputDescription[];
  readonly schedule: Schedule;
  /** [step] of those that are kernels. */
  readonly kernels: ReadonlyMap<number, Kernel>;
  /** Weights and tables, which lie there from the beginning. [place's key] */
  readonly brought: ReadonlyMap<object, Address>;
  readonly dispose: () => void;
}

export class CudaProgram implements Program {
  readonly inputs: readonly InputDescription[];
  private readonly layouts = new Map<string, RunLayouts>();
  private isDisposed = false;

  constructor(
    private readonly memory: DeviceMemory,
    private readonly parts: ProgramParts,
  ) {
    this.inputs = parts.inputs;
  }

  run(values: MixedValues, wanted?: readonly string[]): Promise<NamedValues>;
  run(values: MixedValues, wanted: Readonly<Record<string, Destination>>): Promise<MixedValues>;
  async run(
    values: MixedValues,
    wanted: Wanted = [...this.parts.schedule.outputs.keys()],
  ): Promise<MixedValues> {
    if (this.isDisposed) throw new MistletoeError('runtime', 'The program was run after it was disposed of.');
    const destinations = this.readDestinations(wanted);
    const bindings = this.bind(values);
    const layout = this.layoutsOf(destinations).layOut(bindings);
    const sent = packInputs(this.inputs, values, layout.steps);
    const base = this.memory.reserveArena(alignBytes(sent.bytes.byteLength) + layout.totalBytes);
    const work = base + BigInt(alignBytes(sent.bytes.byteLength));
    if (sent.bytes.byteLength > 0) this.memory.upload(base, sent.bytes);

    const fresh = this.takeBuffers(destinations, layout);
    const addresses = new Map<object, Address>(this.parts.brought);
    for (const [key, offset] of layout.offsets) addresses.set(key, work + BigInt(offset));
    for (const [name, { buffer }] of fresh)
      addresses.set(this.parts.schedule.outputs.get(name)!.key, deviceRowsOf(buffer, this.memory).address);
    const addressOf = (place: Place): Address => {
      if (place.origin === 'input' && place.tensor.operation === 'input')
        return this.addressOfInput(place.tensor.attributes.name, values, base, sent.offsets);
      return addresses.get(place.key)!;
    };
    for (const [index, step] of layout.steps.entries())
      this.launch(step, addressOf, base + BigInt(sent.symbols[index]!));

    const outputs: Record<string, TensorValue | ResidentValue> = Object.fromEntries(fresh);
    for (const [name, destination] of destinations) {
      if (destination === 'host' || destination === 'runtime') continue;
      const shape = layout.shapes.get(name)!;
      const rows = deviceRowsOf(destination, this.memory);
      const place = this.parts.schedule.outputs.get(name)!;
      const count = shape.reduce((product, size) => product * size, 1);
      rows.requireSize(count);
      this.memory.copy(rows.address, addressOf(place), 4 * count);
      outputs[name] = resident(destination, shape);
    }
    if (layout.hostBytes > 0) await this.readBack(layout, work, outputs);
    for (const [name, shape] of layout.shapes)
      if (destinations.get(name) === 'host')
        outputs[name] ??= emptyValue(this.parts.schedule.outputs.get(name)!, shape);
    return outputs;
  }

  private readDestinations(wanted: Wanted): ReadonlyMap<string, Destination> {
    const { outputs } = this.parts.schedule;
    return new Map(
      namesOf(wanted).map((name) => {
        const destination = Array.isArray(wanted)
          ? 'host'
          : (wanted as Readonly<Record<string, Destination>>)[name]!;
        if (destination !== 'host' && outputs.get(name)!.type !== 'float32') {
          throw new MistletoeError(
            'runtime',
            `The program has no float32 output "${name}"; it has ${[...outputs.keys()].join(', ')}.`,
          );
        }
        return [name, destination] as const;
      }),
    );
  }

  private bind(values: MixedValues) {
    const shaped: Record<string, { shape: readonly number[]; data: { length: number } }> = {};
    const onHost: Record<string, TensorValue> = {};
    for (const [name, value] of Object.entries(values)) {
      if ('data' in value) {
        onHost[name] = value;
        shaped[name] = value;
        continue;
      }
      const { rowCount, width } = deviceRowsOf(value.buffer, this.memory);
      shaped[name] = { shape: value.shape, data: { length: rowCount * width } };
    }
    const bindings = bindInputs(this.inputs, shaped);
    checkTypes(
      this.inputs.filter(({ name }) => name in onHost),
      onHost,
    );
    return bindings;
  }

  private layoutsOf(destinations: ReadonlyMap<string, Destination>): RunLayouts {
    const kinds = new Map(
      [...destinations].map(([name, destination]): [string, OutputKind] => [
        name,
        destination === 'host' ? 'host' : destination === 'runtime' ? 'fresh' : 'given',
      ]),
    );
    const key = [...kinds].map(([name, kind]) => `${name} ${kind}`).join();
    const known = this.layouts.get(key) ?? new RunLayouts(planRun(this.parts.schedule, kinds));
    this.layouts.set(key, known);
    return known;
  }

  private takeBuffers(
    destinations: ReadonlyMap<string, Destination>,
    { shapes }: RunLayout,
  ): ReadonlyMap<string, ResidentValue> {
    const fresh = new Map<string, ResidentValue>();
    for (const [name, destination] of destinations) {
      if (destination !== 'runtime') continue;
      const shape = shapes.get(name)!;
      const width = shape.at(-1) ?? 1;
      const count = shape.reduce((product, size) => product * size, 1);
      const rows = allocateRows(this.memory, width === 0 ? 0 : count / width, width);
      fresh.set(name, resident(rows, shape));
    }
    return fresh;
  }

  private addressOfInput(
    name: string,
    values: MixedValues,
    base: Address,
    offsets: ReadonlyMap<string, number>,
  ): Address {
    const value = values[name]!;
    return 'buffer' in value
      ? deviceRowsOf(value.buffer, this.memory).address
      : base + BigInt(offsets.get(name)!);
  }

  private launch(step: LaidStep, addressOf: (place: Place) => Address, symbols: Address): void {
    const { device } = this.memory;
    if (step.kind === 'kernel') {
      const { grid, block, operands } = step;
      const kernel = this.parts.kernels.get(step.step)!;
      device.launch({ kernel, grid, block, arguments: [symbols, ...operands.map(addressOf)] });
      return;
    }
    const { places, product } = step;
    const result = { ...product.result, address: addressOf(places.result) };
    if (product.inner === 0) {
      device.clear(result.address, 4 * product.batch * product.rows * product.columns);
      return;
    }
    const left = { ...product.left, address: addressOf(places.left) };
    const right = { ...product.right, address: addressOf(places.right) };
    device.multiply({ ...product, left, right, result });
  }

  private async readBack(
    layout: RunLayout,
    work: Address,
    outputs: Record<string, TensorValue | ResidentValue>,
  ): Promise<void> {
    const bytes = new Uint8Array(layout.hostBytes);
    await this.memory.download(work + BigInt(layout.hostOffset), bytes);
    for (const [name, offset] of layout.hostOffsets) {
      const shape = layout.shapes.get(name)!;
      const count = shape.reduce((product, size) => product * size, 1);
      const { type } = this.parts.schedule.outputs.get(name)!;
      outputs[name] = { shape, data: viewValues(bytes, offset, count, type) };
    }
  }

  dispose(): Promise<void> {
    if (!this.isDisposed) this.parts.dispose();
    this.isDisposed = true;
    return Promise.resolve();
  }
}

function viewValues(
  bytes: Uint8Array,
  offset: number,
  count: number,
  type: Place['type'],
): TensorValue['data'] {
  const { buffer } = bytes;
  if (type === 'float32') return new Float32Array(buffer, offset, count);
  if (type === 'int32') return new Int32Array(buffer, offset, count);
  return type === 'bool' ? new Uint8Array(buffer, offset, count) : new Uint16Array(buffer, offset, count);
}

const emptyValue = ({ type }: Place, shape: readonly number[]): TensorValue => ({
  shape,
  data: viewValues(new Uint8Array(0), 0, 0, type),
});

/** Inputs from the host and the lengths that each kernel reads, as one piece. */
function packInputs(inputs: readonly InputDescription[], values: MixedValues, steps: readonly LaidStep[]) {
  const offsets = new Map<string, number>();
  const symbols: number[] = [];
  const pieces: { readonly offset: number; readonly data: ArrayBufferView }[] = [];
  let size = 0;
  const add = (data: ArrayBufferView, alignTo: number): number => {
    size = Math.ceil(size / alignTo) * alignTo;
    const offset = size;
    pieces.push({ offset, data });
    size += data.byteLength;
    return offset;
  };
  for (const { name } of inputs) {
    const value = values[name]!;
    if ('data' in value) offsets.set(name, add(value.data, 256));
  }
  const known = new Map<string, number>();
  for (const step of steps) {
    const lengths = step.kind === 'kernel' ? step.symbols : new Int32Array();
    const key = lengths.join();
    const offset = known.get(key) ?? add(lengths, 4);
    known.set(key, offset);
    symbols.push(offset);
  }
  const bytes = new Uint8Array(Math.ceil(size / 4) * 4);
  for (const { offset, data } of pieces)
    bytes.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), offset);
  return { bytes, offsets, symbols };
}
