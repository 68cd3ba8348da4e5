import { downloadAgain, quote, refuse } from '../stored-tensor.js';

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
const maximumLine = 256; // module and attribute names of globals are short

/** Reads a pickle's operands; every length is checked against the remaining bytes. */
export class PickleCursor {
  readonly #bytes: Buffer;
  readonly #source: string;
  position = 0;

  constructor(bytes: Buffer, source: string) {
    this.#bytes = bytes;
    this.#source = source;
  }

  byte(): number {
    return this.#bytes.readUInt8(this.#advance(1));
  }

  uint16(): number {
    return this.#bytes.readUInt16LE(this.#advance(2));
  }

  uint32(): number {
    return this.#bytes.readUInt32LE(this.#advance(4));
  }

  int32(): number {
    return this.#bytes.readInt32LE(this.#advance(4));
  }

  float64(): number {
    return this.#bytes.readDoubleBE(this.#advance(8));
  }

  size64(): number {
    const value = this.#bytes.readBigUInt64LE(this.#advance(8));
    if (value > BigInt(this.#bytes.byteLength)) {
      throw this.#refuse(`a length of ${value.toString()} bytes does not fit the pickle`);
    }
    return Number(value);
  }

  /** Two's complement; refuses what a number cannot hold exactly. */
  long(size: number): number {
    if (size === 0) return 0;
    if (size > 8) throw this.#refuse(`an integer of ${size} bytes is larger than any size of a tensor`);
    const start = this.#advance(size);
    let value = 0n;
    for (let index = size - 1; index >= 0; index -= 1) {
      value = (value << 8n) | BigInt(this.#bytes.readUInt8(start + index));
    }
    const number = Number(BigInt.asIntN(size * 8, value));
    if (!Number.isSafeInteger(number)) throw this.#refuse(`the integer ${number} is too large`);
    return number;
  }

  text(size: number): string {
    const start = this.#advance(size);
    try {
      return utf8.decode(this.#bytes.subarray(start, start + size));
    } catch (cause) {
      throw this.#refuse(`the string at byte ${start} is not UTF-8`, cause);
    }
  }

  line(): string {
    const start = this.position;
    const end = this.#bytes.indexOf(0x0a, start);
    if (end < 0 || end - start > maximumLine) {
      const opening = this.#bytes.toString('latin1', start, start + 40);
      throw this.#refuse(`the global name ${quote(opening)} at byte ${start} does not end`);
    }
    this.position = end + 1;
    return this.#bytes.toString('utf8', start, end);
  }

  #advance(size: number): number {
    const start = this.position;
    if (size > this.#bytes.byteLength - start) {
      throw this.#refuse(
        `it ends at byte ${this.#bytes.byteLength}, but ${size} bytes from ${start} on are needed`,
      );
    }
    this.position = start + size;
    return start;
  }

  #refuse(why: string, cause?: unknown): Error {
    return refuse(`${this.#source} is not a state dict torch.save wrote: ${why}`, downloadAgain, cause);
  }
}
