/** The subset of protocol buffers that ONNX files need. */
const encoder = new TextEncoder();

/** Models have thousands of small messages, so each is written into one buffer, without an array per field. */
export class MessageWriter {
  private buffer: Uint8Array = Buffer.allocUnsafe(64);
  private size = 0;

  private reserve(bytes: number): void {
    const needed = this.size + bytes;
    if (needed <= this.buffer.length) return;
    const larger = Buffer.allocUnsafe(Math.max(needed, 2 * this.buffer.length));
    larger.set(this.buffer.subarray(0, this.size));
    this.buffer = larger;
  }

  private push(chunk: Uint8Array): void {
    this.reserve(chunk.length);
    this.buffer.set(chunk, this.size);
    this.size += chunk.length;
  }

  private varint(value: number): void {
    this.reserve(10);
    if (value < 0) {
      this.negative(BigInt(value));
      return;
    }
    let rest = value;
    while (rest >= 0x80) {
      this.buffer[this.size++] = (rest % 0x80) | 0x80;
      rest = Math.floor(rest / 0x80);
    }
    this.buffer[this.size++] = rest;
  }

  /** All 64 bits of the two's complement. */
  private negative(value: bigint): void {
    let rest = BigInt.asUintN(64, value);
    while (rest >= 0x80n) {
      this.buffer[this.size++] = Number(rest & 0x7fn) | 0x80;
      rest >>= 7n;
    }
    this.buffer[this.size++] = Number(rest);
  }

  private tag(field: number, wireType: 0 | 2 | 5): void {
    this.varint((field << 3) | wireType);
  }

  integer(field: number, value: number): this {
    this.tag(field, 0);
    this.varint(value);
    return this;
  }

  integers(field: number, values: readonly number[]): this {
    for (const value of values) this.integer(field, value);
    return this;
  }

  float(field: number, value: number): this {
    this.tag(field, 5);
    this.push(new Uint8Array(Float32Array.of(value).buffer));
    return this;
  }

  bytes(field: number, value: Uint8Array): this {
    this.tag(field, 2);
    this.varint(value.length);
    this.push(value);
    return this;
  }

  string(field: number, value: string): this {
    return this.bytes(field, encoder.encode(value));
  }

  message(field: number, value: MessageWriter): this {
    return this.bytes(field, value.buffer.subarray(0, value.size));
  }

  finish(): Uint8Array {
    return Uint8Array.from(this.buffer.subarray(0, this.size));
  }
}
