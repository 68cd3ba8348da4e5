/**
 * Per parameter its values, summed gradients and AdamW's two moments, in buffers of the runtime. Programs read and
 * update them in place, by the names from slotName.
 */
import { MistletoeError } from '../../core/errors.js';
import type { Destination, ResidentValue, Runtime } from '../../runtime/program.js';
import { resident } from '../../runtime/program.js';
import type { RowBuffer } from '../../runtime/row-buffer.js';

export type ParameterSlot = 'parameter' | 'gradient' | 'mean' | 'square';

export interface ParameterValues {
  readonly shape: readonly number[];
  readonly data: Float32Array;
}

export const slotName = (slot: ParameterSlot, name: string): string => `${slot}.${name}`;

/** The state that the next update depends on; gradients start at 0. */
export const keptSlots = ['parameter', 'mean', 'square'] as const satisfies readonly ParameterSlot[];
export const allSlots = [...keptSlots, 'gradient'] as const;

export class ParameterBuffers {
  private readonly buffers = new Map<string, RowBuffer>(); // [slotName]

  constructor(
    runtime: Runtime,
    readonly shapes: ReadonlyMap<string, readonly number[]>,
  ) {
    for (const [name, shape] of shapes) {
      const width = shape.at(-1) ?? 1;
      for (const slot of allSlots)
        this.buffers.set(slotName(slot, name), runtime.allocate(countValues(shape) / width, width));
    }
  }

  residents(slots: readonly ParameterSlot[]): Readonly<Record<string, ResidentValue>> {
    return Object.fromEntries(
      this.list(slots).map(({ key, shape, buffer }) => [key, resident(buffer, shape)]),
    );
  }

  destinations(slots: readonly ParameterSlot[]): Readonly<Record<string, Destination>> {
    return Object.fromEntries(this.list(slots).map(({ key, buffer }) => [key, buffer]));
  }

  clearGradients(): void {
    for (const { buffer } of this.list(['gradient']))
      buffer.write(new Float32Array(buffer.rowCount * buffer.width));
  }

  async read(slots: readonly ParameterSlot[] = keptSlots): Promise<ReadonlyMap<string, Float32Array>> {
    const values = new Map<string, Float32Array>();
    for (const { key, buffer } of this.list(slots)) values.set(key, await buffer.read());
    return values;
  }

  restore(values: ReadonlyMap<string, Float32Array>): void {
    const missing = this.list(keptSlots).find(({ key }) => !values.has(key));
    if (missing !== undefined) {
      throw new MistletoeError('checkpoint', `The saved state has no values for "${missing.key}".`, {
        hint: 'It is the state of another drafter: begin a new run.',
      });
    }
    this.write(values);
  }

  write(values: ReadonlyMap<string, Float32Array>): void {
    for (const [key, data] of values) {
      const buffer = this.buffers.get(key);
      if (buffer?.rowCount !== data.length / (buffer?.width ?? 1)) {
        throw new MistletoeError(
          'checkpoint',
          `The saved state has ${data.length} values for "${key}", which this drafter does not have in that size.`,
          { hint: 'It is the state of another drafter: begin a new run.' },
        );
      }
      buffer.write(data);
    }
  }

  free(): void {
    for (const buffer of this.buffers.values()) buffer.free();
  }

  private list(slots: readonly ParameterSlot[]) {
    return [...this.shapes].flatMap(([name, shape]) =>
      slots.map((slot) => {
        const key = slotName(slot, name);
        return { key, shape, buffer: this.buffers.get(key)! };
      }),
    );
  }
}

export const countValues = (shape: readonly number[]): number =>
  shape.reduce((product, size) => product * size, 1);
