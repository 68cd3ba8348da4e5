/**
 * The wire format of protocol buffers, as far as reading needs it: a message is a run of numbered fields, each a
 * varint, four or eight bytes, or a length and that many bytes. Lengths are checked against the bytes that are there,
 * so a hostile file costs no more than its own size.
 */
export type ProtobufField =
  | { readonly number: number; readonly kind: 'varint'; readonly value: bigint }
  | { readonly number: number; readonly kind: 'fixed32'; readonly bytes: Buffer }
  | { readonly number: number; readonly kind: 'fixed64'; readonly bytes: Buffer }
  | { readonly number: number; readonly kind: 'bytes'; readonly bytes: Buffer };

/** Fields in the order of the file; `fail` turns what is wrong into the caller's error. */
export function* readProtobuf(message: Buffer, fail: (why: string) => Error): Generator<ProtobufField> {
  let position = 0;
  const take = (length: number): Buffer => {
    if (length > message.length - position) {
      throw fail(`a field of ${length} bytes begins where ${message.length - position} are left`);
    }
    position += length;
    return message.subarray(position - length, position);
  };
  const varint = (): bigint => {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = take(1)[0]!;
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return BigInt.asUintN(64, value);
    }
    throw fail('a number has more than 10 bytes');
  };
  while (position < message.length) {
    const tag = varint();
    const number = Number(tag >> 3n);
    const wireType = Number(tag & 7n);
    if (number === 0 || number >= 2 ** 29) throw fail(`a field has the number ${number}`);
    switch (wireType) {
      case 0:
        yield { number, kind: 'varint', value: varint() };
        break;
      case 1:
        yield { number, kind: 'fixed64', bytes: take(8) };
        break;
      case 2: {
        const length = varint();
        yield { number, kind: 'bytes', bytes: take(length > 2n ** 40n ? 2 ** 40 : Number(length)) };
        break;
      }
      case 5:
        yield { number, kind: 'fixed32', bytes: take(4) };
        break;
      default:
        throw fail(`field ${number} has the wire type ${wireType}`);
    }
  }
}
