/** Reads the header of a GGUF file step by step; every length is checked before anything is read or allocated. */
import { fileLimits } from '../../core/limits.js';
import type { BinaryFile } from '../binary-file.js';
import { downloadAgain, refuse } from '../stored-tensor.js';

const maxNameBytes = 65_535;

/** The header is longer than the bytes that were read of the file so far. */
export class MoreBytesNeeded extends Error {}

export class HeaderCursor {
  position = 0;

  constructor(
    private readonly file: BinaryFile,
    readonly bytes: Buffer,
    /** How far a header may reach. */
    private readonly readableBytes: number,
  ) {}

  /** The position of the next `length` bytes. */
  skip(length: number, what: string): number {
    const start = this.position;
    const end = start + length;
    if (end > this.readableBytes) {
      const { path, sizeBytes } = this.file;
      if (sizeBytes <= fileLimits.ggufHeader)
        throw refuse(`${path} has ${sizeBytes} bytes and ends before ${what}`, downloadAgain);
      throw refuse(
        `${path} has a header of more than ${fileLimits.ggufHeader} bytes (${what} ends at ${showSize(end)})`,
        downloadAgain,
      );
    }
    if (end > this.bytes.length) throw new MoreBytesNeeded();
    this.position = end;
    return start;
  }

  uint32(what: string): number {
    return this.bytes.readUInt32LE(this.skip(4, what));
  }

  /** A length or a count; Infinity if a double cannot hold it exactly. */
  size(what: string): number {
    const value = this.bytes.readBigUInt64LE(this.skip(8, what));
    return value > BigInt(Number.MAX_SAFE_INTEGER) ? Infinity : Number(value);
  }

  name(what: string): string {
    const length = this.size(what);
    if (length > maxNameBytes)
      throw refuse(`${this.file.path} has ${what} of ${showSize(length)} bytes`, downloadAgain);
    const start = this.skip(length, what);
    return decodeText(this.bytes.subarray(start, start + length), () =>
      refuse(`${this.file.path} has ${what} that is not UTF-8`, downloadAgain),
    );
  }
}

export function showSize(size: number): string {
  return size === Infinity ? 'more than 2^53' : String(size);
}

/** Buffer's decoder is faster than TextDecoder and puts U+FFFD in place of wrong bytes. */
export function decodeText(bytes: Buffer, fail: () => Error): string {
  const text = bytes.toString('utf8');
  if (text.includes('\ufffd') && !Buffer.from(text).equals(bytes)) throw fail();
  return text;
}
