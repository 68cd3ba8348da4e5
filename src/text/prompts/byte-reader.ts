/** Reads untrusted bytes in order. Lengths are checked against the bytes that are left, and what is read against a budget. */
export class ByteReader {
  private position = 0;

  /** `budget` is shared by readers of the same file, whose parts may overlap. */
  constructor(
    private readonly bytes: Buffer,
    private readonly budget: ByteBudget,
  ) {}

  get left(): number {
    return this.bytes.length - this.position;
  }

  take(count: number): Buffer {
    if (!(count >= 0 && count <= this.left))
      throw new Error(`a part of ${count} bytes begins where ${this.left} are left`);
    this.budget.spend(count);
    this.position += count;
    return this.bytes.subarray(this.position - count, this.position);
  }

  byte(): number {
    const byte = this.bytes[this.position];
    if (byte === undefined) throw new Error('it ends too early');
    this.budget.spend(1);
    this.position += 1;
    return byte;
  }

  uint32(): number {
    return this.take(4).readUInt32LE();
  }

  /** Numbers of more than 53 bits lose their lowest ones; no size is that large. */
  varint(): number {
    let value = 0;
    for (let shift = 0; shift < 70; shift += 7) {
      const byte = this.byte();
      value += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) return value;
    }
    throw new Error('a number has more than 10 bytes');
  }

  /** A reader of the next bytes alone. */
  part(count: number): ByteReader {
    return new ByteReader(this.take(count), this.budget);
  }
}

/** What reading a file may cost: its bytes, each time they are read, and what they unfold into. */
export class ByteBudget {
  private spent = 0;

  constructor(private readonly max: number) {}

  spend(bytes: number): void {
    this.spent += bytes;
    if (this.spent > this.max) throw new Error(`it unfolds into more than ${this.max} bytes`);
  }
}
