/** The subset of protocol buffers that ONNX files need. */
const encoder = new TextEncoder();

export class MessageWriter {
  private readonly chunks: Uint8Array[] = [];
  private size = 0;

  private push(chunk: Uint8Array): void {
    this.chunks.push(chunk);
    this.size += chunk.length;
  }

  private varint(value: bigint): void {
    const bytes: number[] = [];
    let rest = BigInt.asUintN(64, value);
    while (rest >= 0x80n) {
      bytes.push(Number(rest & 0x7fn) | 0x80);
      rest >>= 7n;
    }
    bytes.push(Number(rest));
    this.push(Uint8Array.from(bytes));
  }

  private tag(field: number, wireType: 0 | 2 | 5): void {
    this.varint(BigInt((field << 3) | wireType));
  }

  integer(field: number, value: number): this {
    this.tag(field, 0);
    this.varint(BigInt(value));
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
    this.varint(BigInt(value.length));
    this.push(value);
    return this;
  }

  string(field: number, value: string): this {
    return this.bytes(field, encoder.encode(value));
  }

  message(field: number, value: MessageWriter): this {
    return this.bytes(field, value.finish());
  }

  finish(): Uint8Array {
    const result = new Uint8Array(this.size);
    let offset = 0;
    for (const chunk of this.chunks) {
      result.set(chunk, offset);
      offset += chunk.length;
    }
    return result;
  }
}
