/** Snappy's raw format: the length, then literals and copies of what was written before. */
import type { ByteReader } from './byte-reader.js';

/** A copy of three bytes writes 64 at most. */
const maxGrowth = 22;

export function unpackSnappy(reader: ByteReader, size: number): Buffer {
  const packed = reader.left;
  const announced = reader.varint();
  if (announced !== size || size > maxGrowth * packed)
    throw new Error(`${packed} packed bytes announce ${Math.max(announced, size)}`);
  const output = Buffer.alloc(size);
  let position = 0;
  while (reader.left > 0) {
    const tag = reader.byte();
    const kind = tag & 3;
    const short = tag >> 2;
    if (kind === 0) {
      const length = 1 + (short < 60 ? short : readLittleEndian(reader, short - 59));
      if (length > size - position) throw new Error('its packed bytes are longer than announced');
      position += reader.take(length).copy(output, position);
      continue;
    }
    const length = kind === 1 ? 4 + (short & 7) : short + 1;
    const offset =
      kind === 1 ? ((tag >> 5) << 8) | reader.byte() : readLittleEndian(reader, kind === 2 ? 2 : 4);
    if (offset === 0 || offset > position) throw new Error(`its packed bytes repeat what is not there`);
    if (length > size - position) throw new Error('its packed bytes are longer than announced');
    // Byte by byte: a copy may repeat what it writes itself.
    for (const end = position + length; position < end; position++)
      output[position] = output[position - offset]!;
  }
  if (position < size) throw new Error('its packed bytes are shorter than announced');
  return output;
}

const readLittleEndian = (reader: ByteReader, bytes: number): number =>
  reader.take(bytes).readUIntLE(0, bytes);
