/** GGUF files for tests, fuzzing and comparisons with llama.cpp: the layout of ggml's gguf.h, written without any library. */

/** One value of the metadata with its type. */
export type GgufValue =
  | { readonly type: 'uint32' | 'int32' | 'float32' | 'uint64'; readonly value: number }
  | { readonly type: 'bool'; readonly value: boolean }
  | { readonly type: 'string'; readonly value: string }
  | { readonly type: 'strings'; readonly value: readonly string[] }
  | { readonly type: 'int32s' | 'float32s'; readonly value: readonly number[] };

export type GgufMetadata = Readonly<Record<string, GgufValue>>;

export const ggmlTypes = {
  ...{ F32: 0, F16: 1, Q4_0: 2, Q4_1: 3, Q5_0: 6, Q5_1: 7, Q8_0: 8, Q2_K: 10, Q3_K: 11, Q4_K: 12 },
  ...{ Q5_K: 13, Q6_K: 14, IQ2_XXS: 16, BF16: 30 },
} as const;

export type GgmlType = keyof typeof ggmlTypes;

export interface GgufEntry {
  readonly name: string;
  readonly type: GgmlType;
  /** The slowest axis first. */
  readonly shape: readonly number[];
  readonly sizeBytes: number;
}

export const defaultAlignment = 32;

/** Everything before the data, padded. */
export function encodeGgufHeader(
  metadata: GgufMetadata,
  tensors: readonly GgufEntry[],
  { version = 3, alignment = defaultAlignment } = {},
): Buffer {
  const values = Object.entries(metadata);
  const parts = [Buffer.from('GGUF'), uint32(version), uint64(tensors.length), uint64(values.length)];
  for (const [key, value] of values) parts.push(string(key), encodeValue(value));
  let offset = 0;
  for (const { name, type, shape, sizeBytes } of tensors) {
    // ggml counts axes from the innermost.
    const sizes = shape.toReversed();
    parts.push(
      string(name),
      uint32(sizes.length),
      ...sizes.map(uint64),
      uint32(ggmlTypes[type]),
      uint64(offset),
    );
    offset += alignment * Math.ceil(sizeBytes / alignment);
  }
  return pad(Buffer.concat(parts), alignment);
}

/** A whole file in memory. */
export function encodeGguf(
  metadata: GgufMetadata,
  tensors: readonly (Omit<GgufEntry, 'sizeBytes'> & { readonly data: Uint8Array })[],
  options: { readonly version?: number; readonly alignment?: number } = {},
): Buffer {
  const entries = tensors.map((tensor) => ({ ...tensor, sizeBytes: tensor.data.byteLength }));
  return Buffer.concat([
    encodeGgufHeader(metadata, entries, options),
    ...tensors.map(({ data }) => pad(data, options.alignment)),
  ]);
}

export function pad(bytes: Uint8Array, alignment = defaultAlignment): Buffer {
  const rest = bytes.byteLength % alignment;
  return Buffer.concat([bytes, Buffer.alloc(rest === 0 ? 0 : alignment - rest)]);
}

function encodeValue(given: GgufValue): Buffer {
  switch (given.type) {
    case 'uint32':
      return Buffer.concat([uint32(4), uint32(given.value)]);
    case 'int32':
      return Buffer.concat([uint32(5), int32(given.value)]);
    case 'float32':
      return Buffer.concat([uint32(6), float32(given.value)]);
    case 'bool':
      return Buffer.concat([uint32(7), Buffer.from([given.value ? 1 : 0])]);
    case 'string':
      return Buffer.concat([uint32(8), string(given.value)]);
    case 'uint64':
      return Buffer.concat([uint32(10), uint64(given.value)]);
    case 'strings':
      return array(8, given.value.map(string));
    case 'int32s':
      return array(5, given.value.map(int32));
    case 'float32s':
      return array(6, given.value.map(float32));
  }
}

function array(type: number, elements: readonly Buffer[]): Buffer {
  return Buffer.concat([uint32(9), uint32(type), uint64(elements.length), ...elements]);
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32LE(value);
  return bytes;
}

function float32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeFloatLE(value);
  return bytes;
}

export function uint64(value: number | bigint): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
}

function string(value: string): Buffer {
  const bytes = Buffer.from(value);
  return Buffer.concat([uint64(bytes.length), bytes]);
}
