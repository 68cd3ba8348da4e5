/**
 * Hidden states of the target as float16 in a file of limited size, so that later epochs need not compute them. The index
 * beside it has a JSON line per entry, [id, rows, width], in the order of the file, written behind the entry's values. A
 * kill leaves at most values without a line, which are cut off.
 * A run must end with the same weights whether states are computed or read, so training uses what `put` returns: the
 * states as they would be read back.
 */
import { closeSync, fstatSync, ftruncateSync, readSync, writeSync } from 'node:fs';
import * as z from '../../core/schema.js';
import { openToWriteSync } from '../../core/durable-files.js';
import { describeCause } from '../../core/errors.js';
import { decodeHalves, encodeHalves } from '../../core/half-floats.js';
import { formatBytes } from '../../core/number-text.js';
import { readValidLines } from '../../runs/json-lines.js';
import { appendText, explainFailure } from '../../runs/run-writes.js';

export interface StateStoreOptions {
  readonly limitBytes: number;
  readonly onNotice?: ((message: string) => void) | undefined;
}

const count = z.int().nonnegative();
const lineSchema = z.tuple([z.string(), count, count]);
const bytesPerValue = Uint16Array.BYTES_PER_ELEMENT;

export class StateStore {
  private readonly entries = new Map<string, { readonly position: number; readonly values: number }>();
  private readonly said = new Set<'full' | 'overflow'>();
  private end = 0;

  private constructor(
    private readonly path: string,
    private readonly file: number,
    private readonly options: StateStoreOptions,
  ) {}

  static open(path: string, options: StateStoreOptions): StateStore {
    const file = explainFailure(path, 'train', () => openToWriteSync(path, 'append'));
    const store = new StateStore(path, file, options);
    const { size } = fstatSync(file);
    readValidLines(indexOf(path), lineSchema, ([id, rows, width]) => {
      const isWhole = store.end + rows * width * bytesPerValue <= size;
      if (isWhole) store.place(id, rows * width);
      return isWhole;
    });
    ftruncateSync(file, store.end);
    return store;
  }

  has(exampleId: string): boolean {
    return this.entries.has(exampleId);
  }

  get(exampleId: string): Float32Array | undefined {
    const entry = this.entries.get(exampleId);
    if (entry === undefined) return undefined;
    const bits = new Uint16Array(entry.values);
    if (readSync(this.file, bits, 0, bits.byteLength, entry.position) === bits.byteLength)
      return decodeHalves(bits, 'float16');
    throw new Error(`${this.path} was cut off by another program.`);
  }

  /** Stores the states if they are new and fit, and returns the values to use. */
  put(exampleId: string, states: Float32Array, shape: readonly [number, number]): Float32Array {
    const bits = encodeHalves(states, 'float16');
    if (bits.some((half) => (half & 0x7c00) === 0x7c00)) {
      const text =
        'The states of some examples do not fit float16 and are computed anew whenever they are needed.';
      this.say('overflow', text);
      return states;
    }
    if (!this.has(exampleId) && !this.said.has('full')) this.append(exampleId, bits, shape);
    return decodeHalves(bits, 'float16');
  }

  close(): void {
    closeSync(this.file);
  }

  private append(exampleId: string, bits: Uint16Array, shape: readonly [number, number]): void {
    const { limitBytes } = this.options;
    const others = 'the others are computed in every epoch';
    if (this.end + bits.byteLength > limitBytes) {
      const kept = `${this.entries.size} examples have ${formatBytes(this.end)}, and ${formatBytes(limitBytes)} is the limit`;
      this.say('full', `No more states are kept in ${this.path}: ${kept}; ${others}.`);
      return;
    }
    try {
      for (let written = 0; written < bits.byteLength;) {
        const rest = new Uint8Array(bits.buffer, bits.byteOffset + written, bits.byteLength - written);
        written += writeSync(this.file, rest);
      }
      appendText(indexOf(this.path), `${JSON.stringify([exampleId, ...shape])}\n`, { command: 'train' });
    } catch (cause) {
      // Training continues without further entries, which must not follow a partial one.
      this.say('full', `No more states are kept in ${this.path}: ${describeCause(cause)}; ${others}.`);
      return;
    }
    this.place(exampleId, bits.length);
  }

  private place(exampleId: string, values: number): void {
    this.entries.set(exampleId, { position: this.end, values });
    this.end += values * bytesPerValue;
  }

  private say(kind: 'full' | 'overflow', message: string): void {
    if (this.said.has(kind)) return;
    this.said.add(kind);
    this.options.onNotice?.(message);
  }
}

const indexOf = (path: string): string => `${path}.jsonl`;
