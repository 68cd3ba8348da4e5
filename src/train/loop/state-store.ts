/**
 * Hidden states of the target as float16 in one append-only file of limited size, so that later epochs need not
 * compute them. After a mark and a digest of their origin, each entry is
 * id bytes, rows, width, checksum of the states, checksum of these four and the id (5 x uint32)
 * the id as UTF-8, then the states [row, width]
 * Damaged states are computed again: the file is cut at an incomplete entry or damaged header, states with a wrong
 * checksum are ignored, and a file of another target or other data is emptied.
 * A run must end with the same weights whether states are computed or read, so training uses what `put` returns: the
 * states as they would be read back.
 */
import { createHash } from 'node:crypto';
import { closeSync, fstatSync, ftruncateSync, openSync, readSync, writeSync } from 'node:fs';
import { crc32 } from 'node:zlib';
import { codeOf } from '../../runs/run-writes.js';
import { formatBytes } from '../../core/number-text.js';
import { describeCause, MistletoeError } from '../../core/errors.js';
import { decodeHalves, encodeHalves } from '../../core/half-floats.js';

export interface StateStoreOptions {
  readonly limitBytes: number;
  /** Identifies target, taps and examples. A file with another identity is emptied. */
  readonly identity?: string | undefined;
  readonly onNotice?: ((message: string) => void) | undefined;
}

interface Entry {
  readonly position: number;
  readonly shape: readonly [number, number];
  readonly checksum: number;
}

const mark = Buffer.from('MSTATES1');
const headBytes = 5 * Uint32Array.BYTES_PER_ELEMENT;
const maxIdBytes = 2 ** 16;

export class StateStore {
  private readonly entries = new Map<string, Entry>();
  private readonly said = new Set<'full' | 'overflow'>();
  private end = 0;

  private constructor(
    private readonly path: string,
    private readonly file: number,
    private readonly options: StateStoreOptions,
  ) {}

  /** @example const store = StateStore.open(join(run, 'states.bin'), { limitBytes: 8e9, identity }); */
  static open(path: string, options: StateStoreOptions): StateStore {
    try {
      const file = openSync(path, 'a+');
      try {
        const store = new StateStore(path, file, options);
        store.recover();
        return store;
      } catch (cause) {
        closeSync(file);
        throw cause;
      }
    } catch (cause) {
      if (codeOf(cause) === undefined) throw cause;
      throw new MistletoeError(
        'runtime',
        `The states of the target cannot be kept in ${path}: ${describeCause(cause)}.`,
        { hint: 'Make room on the disk, or the folder writable; or keep no states.', cause },
      );
    }
  }

  get count(): number {
    return this.entries.size;
  }

  get sizeBytes(): number {
    return this.end;
  }

  has(exampleId: string): boolean {
    return this.entries.has(exampleId);
  }

  get(exampleId: string) {
    const entry = this.entries.get(exampleId);
    if (entry === undefined) return undefined;
    const [rows, width] = entry.shape;
    const bits = new Uint16Array(rows * width);
    const bytes = bytesOf(bits);
    if (this.read(bytes, entry.position) < bytes.length || crc32(bytes) !== entry.checksum) {
      this.entries.delete(exampleId);
      return undefined;
    }
    return { states: decodeHalves(bits, 'float16'), shape: entry.shape };
  }

  /** Stores the states if they are new and fit, and returns the values to use. */
  put(exampleId: string, states: Float32Array, shape: readonly [number, number]): Float32Array {
    const [rows, width] = shape;
    if (states.length !== rows * width) {
      throw new MistletoeError(
        'shape',
        `${states.length} numbers were given as states of shape [${rows}, ${width}]; ${rows * width} were expected.`,
      );
    }
    const bits = encodeHalves(states, 'float16');
    if (bits.some(isOverflow)) {
      this.say(
        'overflow',
        'The states of some examples do not fit float16 and are computed anew whenever they are needed.',
      );
      return states;
    }
    if (!this.entries.has(exampleId)) this.append(exampleId, bits, shape);
    return decodeHalves(bits, 'float16');
  }

  close(): void {
    closeSync(this.file);
  }

  private append(exampleId: string, bits: Uint16Array, shape: readonly [number, number]): void {
    const id = Buffer.from(exampleId);
    const bytes = bytesOf(bits);
    const checksum = crc32(bytes);
    const head = Buffer.concat([encodeHead(id, shape, checksum), id]);
    const { limitBytes } = this.options;
    if (this.end + head.length + bytes.length > limitBytes || id.length > maxIdBytes) {
      const kept = `${this.count} examples have ${formatBytes(this.end)}, and ${formatBytes(limitBytes)} is the limit`;
      this.say(
        'full',
        `No more states are kept in ${this.path}: ${kept}; the others are computed in every epoch.`,
      );
      return;
    }
    try {
      writeWhole(this.file, head);
      writeWhole(this.file, bytes);
    } catch (cause) {
      if (codeOf(cause) === undefined) throw cause;
      // Training continues without a store; the next entry must not follow a partial one.
      ftruncateSync(this.file, this.end);
      this.say(
        'full',
        `States could not be kept in ${this.path}: ${describeCause(cause)}; they are computed anew.`,
      );
      return;
    }
    this.entries.set(exampleId, { position: this.end + head.length, shape, checksum });
    this.end += head.length + bytes.length;
  }

  private recover(): void {
    const status = fstatSync(this.file);
    const { identity = '' } = this.options;
    const opening = Buffer.concat([mark, createHash('sha256').update(identity).digest()]);
    const found = Buffer.alloc(Math.min(opening.length, status.size));
    this.read(found, 0);
    const length = Math.min(mark.length, found.length);
    if (!status.isFile() || !found.subarray(0, length).equals(mark.subarray(0, length))) {
      throw new MistletoeError('usage', `${this.path} is there, but it is no file of states.`, {
        hint: 'Move it away, or choose another folder for the run.',
      });
    }
    if (!found.equals(opening)) {
      ftruncateSync(this.file, 0);
      writeWhole(this.file, opening);
      this.end = opening.length;
      return;
    }
    this.end = this.readEntries(opening.length, status.size);
    if (this.end < status.size) ftruncateSync(this.file, this.end);
  }

  private readEntries(start: number, size: number): number {
    let end = start;
    const head = Buffer.alloc(headBytes);
    while (this.read(head, end) === headBytes) {
      const [idBytes, rows, width, checksum] = decodeHead(head);
      const next = end + headBytes + idBytes + rows * width * Uint16Array.BYTES_PER_ELEMENT;
      if (idBytes > maxIdBytes || next > size) break;
      const id = Buffer.alloc(idBytes);
      this.read(id, end + headBytes);
      if (!encodeHead(id, [rows, width], checksum).equals(head)) break;
      this.entries.set(id.toString(), {
        position: end + headBytes + idBytes,
        shape: [rows, width],
        checksum,
      });
      end = next;
    }
    return end;
  }

  private read(target: Uint8Array, position: number): number {
    let filled = 0;
    while (filled < target.length) {
      const count = readSync(this.file, target, filled, target.length - filled, position + filled);
      if (count === 0) break;
      filled += count;
    }
    return filled;
  }

  private say(kind: 'full' | 'overflow', message: string): void {
    if (this.said.has(kind)) return;
    this.said.add(kind);
    this.options.onNotice?.(message);
  }
}

function encodeHead(id: Buffer, [rows, width]: readonly [number, number], checksum: number): Buffer {
  const head = Buffer.alloc(headBytes);
  [id.length, rows, width, checksum].forEach((value, index) => head.writeUInt32LE(value, 4 * index));
  head.writeUInt32LE(crc32(id, crc32(head.subarray(0, 16))), 16);
  return head;
}

function decodeHead(head: Buffer): [number, number, number, number] {
  return [head.readUInt32LE(0), head.readUInt32LE(4), head.readUInt32LE(8), head.readUInt32LE(12)];
}

const bytesOf = (bits: Uint16Array): Uint8Array =>
  new Uint8Array(bits.buffer, bits.byteOffset, bits.byteLength);

const isOverflow = (bits: number): boolean => (bits & 0x7c00) === 0x7c00;

function writeWhole(file: number, bytes: Uint8Array): void {
  for (let written = 0; written < bytes.length;) written += writeSync(file, bytes, written);
}
