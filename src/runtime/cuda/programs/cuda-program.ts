/**
 * A program on a device. A run uploads all host values in one piece, launches its steps, copies kept outputs to
 * buffers, and waits only for host outputs. A repeated run (same layout and buffers) is recorded and then replayed.
 */
import { MistletoeError } from '../../../core/errors.js';
import { isHalf } from '../../../core/half-floats.js';
import type { DimensionBindings } from '../../../graph/dimension.js';
import { bindInputs, checkTypes, namesOf, type Wanted } from '../../program-values.js';
import type {
  Destination,
  InputDescription,
  MixedValues,
  NamedValues,
  Program,
  ResidentValue,
  TensorValue,
} from '../../program.js';
import type { PreparationClock } from '../../preparation-clock.js';
import { resident } from '../../program.js';
import { countElements } from '../../weights.js';
import type { DeviceMemory } from '../driver/device-memory.js';
import { allocateRows, deviceRowsOf } from '../driver/device-rows.js';
import type { Address, Kernel, Recording } from '../driver/device.js';
import type { KernelPlan } from '../kernels/kernel-plan.js';
import type { LaidStep, RunLayout } from './run-layout.js';
import { LaidRuns } from './laid-runs.js';
import { measureWith, packValues, viewValues } from './run-layout.js';
import type { RunPlan } from './run-plan.js';
import type { RecordingShelf } from './recording-shelf.js';
import type { Schedule } from './schedule.js';
import type { Place } from './step.js';

export interface ProgramParts {
  readonly inputs: readonly InputDescription[];
  readonly schedule: Schedule;
  readonly kernelOf: (plan: KernelPlan) => Kernel;
  /** Weights and tables. [place's key] */
  readonly constantAddresses: ReadonlyMap<object, Address>;
  readonly recordings: RecordingShelf;
  readonly preparation: PreparationClock;
  /** Called by runs that are laid out or recorded. */
  readonly onPrepare: () => void;
  readonly dispose: () => void;
}

/** The widest write of a kernel. */
const writeAlignment = 16n;

const isEqual = (left: readonly Address[], right: readonly Address[]): boolean =>
  left.length === right.length && left.every((address, at) => address === right[at]);

export class CudaProgram implements Program {
  readonly inputs: readonly InputDescription[];
  private readonly runs: LaidRuns;
  private isDisposed = false;

  constructor(
    private readonly memory: DeviceMemory,
    private readonly parts: ProgramParts,
  ) {
    this.inputs = parts.inputs;
    this.runs = new LaidRuns(parts.schedule, parts);
  }

  run(values: MixedValues, wanted?: readonly string[]): Promise<NamedValues>;
  run(values: MixedValues, wanted: Readonly<Record<string, Destination>>): Promise<MixedValues>;
  async run(
    values: MixedValues,
    wanted: Wanted = [...this.parts.schedule.outputs.keys()],
  ): Promise<MixedValues> {
    return this.parts.preparation.running(() => this.compute(values, wanted));
  }

  private async compute(values: MixedValues, wanted: Wanted): Promise<MixedValues> {
    if (this.isDisposed) throw new MistletoeError('runtime', 'The program was run after it was disposed of.');
    const destinations = this.readDestinations(wanted);
    const bindings = bindInputs(this.inputs, values);
    checkTypes(this.inputs, values);
    const sent = this.inputs.filter(({ name }) => 'data' in values[name]!);
    const laid = this.runs.find(destinations, bindings, sent);
    const { layout, plan } = laid;
    const base = this.memory.reserveArena(layout.sentBytes + layout.totalBytes);
    this.memory.device.upload(base, packValues(sent, values, layout, bindings));
    const direct = this.findDirect(destinations, values, bindings, plan);
    const addressOf = this.findAddresses(values, layout, base, direct);
    const launch = (): void => {
      for (const step of layout.steps) this.launch(step, addressOf, base);
    };
    const places = [...this.listPlaces(values, base), ...direct.values()];
    const { recordings, preparation, onPrepare } = this.parts;
    const isRepeated = layout.steps.length > 1 && isEqual(places, laid.places);
    if (isRepeated ? laid.recording === undefined : laid.places.length === 0) onPrepare();
    if (isRepeated) {
      const record = (): Recording => this.memory.device.record(launch);
      laid.recording ??= laid.wasRecorded ? record() : preparation.blocking(record);
      laid.wasRecorded = true;
      recordings.use(laid);
      this.memory.device.replay(laid.recording);
    } else {
      recordings.drop(laid);
      // Kernels are compiled and loaded, and algorithms chosen, while the first run is launched.
      if (laid.places.length === 0) preparation.blocking(launch);
      else launch();
      laid.places = places;
    }
    const outputs = this.keepOutputs(destinations, bindings, addressOf);
    if (layout.hostOffsets.size > 0) await this.readBack(layout, base, bindings, outputs);
    return outputs;
  }

  private readDestinations(wanted: Wanted): ReadonlyMap<string, Destination> {
    const { outputs } = this.parts.schedule;
    const all: Readonly<Record<string, Destination>> = Array.isArray(wanted) ? {} : (wanted as typeof all);
    const destinations = new Map(namesOf(wanted).map((name) => [name, all[name] ?? 'host']));
    for (const [name, destination] of destinations) {
      const type = outputs.get(name)?.type;
      if (destination === 'host' || (type !== undefined && type !== 'bool')) continue;
      const names = [...outputs.keys()].join(', ');
      throw new MistletoeError(
        'runtime',
        `The program has no output "${name}" that a buffer can hold; it has ${names}.`,
      );
    }
    return destinations;
  }

  private listPlaces(values: MixedValues, base: Address): readonly Address[] {
    const places = [base];
    for (const { name } of this.inputs) {
      const value = values[name]!;
      if ('buffer' in value) places.push(deviceRowsOf(value.buffer, this.memory).address);
    }
    return places;
  }

  /**
   * [place's key] Buffers that kernels write themselves. An input may be such a buffer if nothing reads it later.
   * Buffers that a run allocates lie elsewhere each time, so recordings would be in vain.
   */
  private findDirect(
    destinations: ReadonlyMap<string, Destination>,
    values: MixedValues,
    bindings: DimensionBindings,
    { values: made, lastReads }: RunPlan,
  ): ReadonlyMap<object, Address> {
    const { schedule } = this.parts;
    const measure = measureWith(bindings);
    const direct = new Map<object, Address>();
    for (const [name, destination] of destinations) {
      if (typeof destination === 'string') continue;
      const { address, rowCount, width } = deviceRowsOf(destination, this.memory);
      const { key, type } = schedule.outputs.get(name)!;
      const hasRoom = measure.count(schedule.shapes.get(name)!) <= rowCount * width * (isHalf(type) ? 2 : 1);
      const { from } = made.find(({ place }) => place.key === key)!;
      const isRead = this.inputs.some(({ name: input }) => {
        const value = values[input]!;
        return (
          'buffer' in value &&
          (lastReads.get(input) ?? -1) >= from &&
          deviceRowsOf(value.buffer, this.memory).overlaps(destination)
        );
      });
      if (hasRoom && !isRead && address % writeAlignment === 0n) direct.set(key, address);
    }
    return direct;
  }

  private findAddresses(
    values: MixedValues,
    layout: RunLayout,
    base: Address,
    direct: ReadonlyMap<object, Address>,
  ): (place: Place) => Address {
    const { constantAddresses } = this.parts;
    return (place) => {
      const address = direct.get(place.key);
      if (address !== undefined) return address;
      if (place.tensor.operation === 'input' && place.origin === 'input') {
        const { name } = place.tensor.attributes;
        const value = values[name]!;
        return 'buffer' in value
          ? deviceRowsOf(value.buffer, this.memory).address
          : base + BigInt(layout.inputOffsets.get(name)!);
      }
      return (
        constantAddresses.get(place.key) ?? base + BigInt(layout.sentBytes + layout.offsets.get(place.key)!)
      );
    };
  }

  private launch(step: LaidStep, addressOf: (place: Place) => Address, base: Address): void {
    const { device } = this.memory;
    if (step.kind === 'kernel') {
      const { plan, grid, block, symbols, startsEarly } = step;
      const operands = (plan.operands as readonly Place[]).map(addressOf);
      const lengths = base + BigInt(symbols);
      const kernel = this.parts.kernelOf(plan);
      device.launch({ kernel, grid, block, startsEarly, arguments: [lengths, ...operands] });
      return;
    }
    const { places, product } = step;
    const [left, right, result] = [places.left, places.right, places.result].map(addressOf);
    device.multiply({
      ...product,
      left: { ...product.left, address: left! },
      right: { ...product.right, address: right! },
      result: { ...product.result, address: result! },
      addend: places.addend && addressOf(places.addend),
    });
  }

  private keepOutputs(
    destinations: ReadonlyMap<string, Destination>,
    bindings: DimensionBindings,
    addressOf: (place: Place) => Address,
  ): Record<string, TensorValue | ResidentValue> {
    const outputs: Record<string, TensorValue | ResidentValue> = {};
    const { schedule } = this.parts;
    const measure = measureWith(bindings);
    for (const [name, destination] of destinations) {
      if (destination === 'host') continue;
      const shape = measure.sizes(schedule.shapes.get(name)!);
      const place = schedule.outputs.get(name)!;
      const perValue = isHalf(place.type) ? 2 : 1;
      const count = countElements(shape) / perValue;
      const width = (shape.at(-1) ?? 1) / perValue;
      const buffer =
        destination === 'runtime'
          ? allocateRows(this.memory, width === 0 ? 0 : count / width, width)
          : deviceRowsOf(destination, this.memory);
      buffer.requireSize(count);
      const from = addressOf(place);
      if (count > 0 && from !== buffer.address) this.memory.device.copy(buffer.address, from, 4 * count);
      outputs[name] = resident(buffer, shape);
    }
    return outputs;
  }

  private async readBack(
    layout: RunLayout,
    base: Address,
    bindings: DimensionBindings,
    outputs: Record<string, TensorValue | ResidentValue>,
  ): Promise<void> {
    const { schedule } = this.parts;
    const measure = measureWith(bindings);
    const bytes = new Uint8Array(layout.hostBytes);
    const from = base + BigInt(layout.sentBytes + layout.hostOffset);
    if (bytes.length > 0) await this.memory.device.download(from, bytes);
    for (const [name, offset] of layout.hostOffsets) {
      const shape = schedule.shapes.get(name)!;
      const { type } = schedule.outputs.get(name)!;
      const data = viewValues(bytes, offset, measure.count(shape), type);
      outputs[name] = { shape: measure.sizes(shape), data };
    }
  }

  dispose(): Promise<void> {
    if (!this.isDisposed) {
      this.runs.dispose();
      this.parts.dispose();
    }
    this.isDisposed = true;
    return Promise.resolve();
  }
}
