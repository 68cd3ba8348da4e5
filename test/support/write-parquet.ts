/** Writes small Parquet files by hand: text columns in one row group, and every part of it as one likes. */
export interface WrittenColumn {
  readonly name: string;
  /** Headers and bodies, dictionary first. */
  readonly pages: Buffer;
  readonly hasDictionary?: boolean | undefined;
  /** 0 uncompressed, 1 Snappy. */
  readonly codec?: number | undefined;
  readonly isOptional?: boolean | undefined;
}

const magic = Buffer.from('PAR1');

export function joinParquet(columns: readonly WrittenColumn[], rows: number, groups = 1): Buffer {
  const starts: number[] = [];
  let offset = magic.length;
  for (const { pages } of columns) {
    starts.push(offset);
    offset += pages.length;
  }
  const schema = [
    struct([[4, binary('schema')], [5, integer(columns.length)]]), // prettier-ignore
    // BYTE_ARRAY, repetition, name, UTF8.
    ...columns.map(
      ({ name, isOptional = false }) =>
      struct([[1, integer(6)], [3, integer(Number(isOptional))], [4, binary(name)], [6, integer(0)]]), // prettier-ignore
    ),
  ];
  const chunks = columns.map(({ name, pages, hasDictionary = false, codec = 0 }, index) =>
    struct([
      [2, long(starts[index]!)],
      [
        3,
        struct([
          [1, integer(6)],
          [2, list([integer(0)])],
          [3, list([binary(name)])],
          [4, integer(codec)],
          [5, long(rows)],
          [6, long(pages.length)],
          [7, long(pages.length)],
          [9, long(starts[index]!)],
          ...(hasDictionary ? [[11, long(starts[index]!)] as const] : []),
        ]),
      ],
    ]),
  );
  const group = struct([[1, list(chunks)], [2, long(offset)], [3, long(rows)]]); // prettier-ignore
  const footer = struct([
    [1, integer(1)],
    [2, list(schema)],
    [3, long(rows * groups)],
    [4, list(new Array<Value>(groups).fill(group))],
  ]).bytes;
  return closeParquet(
    columns.map(({ pages }) => pages),
    footer,
  );
}

export function closeParquet(parts: readonly Buffer[], footer: Buffer): Buffer {
  const length = Buffer.alloc(4);
  length.writeUInt32LE(footer.length);
  return Buffer.concat([magic, ...parts, footer, length, magic]);
}

/** Required text columns, plain encoding, no compression. */
export function writeParquet(rows: readonly Readonly<Record<string, string>>[]): Buffer {
  const names = Object.keys(rows[0]!);
  const columns = names.map((name) => ({
    name,
    pages: dataPage(plainTexts(rows.map((row) => row[name]!)), rows.length),
  }));
  return joinParquet(columns, rows.length);
}

export const plainTexts = (texts: readonly string[]): Buffer =>
  Buffer.concat(texts.flatMap((text) => [uint32(Buffer.byteLength(text)), Buffer.from(text)]));

export interface PageOptions {
  /** 0 plain, 8 dictionary. */
  readonly encoding?: number;
  /** The size that the header names; default that of the body. */
  readonly unpacked?: number;
  readonly packed?: number;
}

export function dataPage(body: Buffer, count: number, options: PageOptions = {}): Buffer {
  const { encoding = 0, unpacked = body.length, packed = body.length } = options;
  // DATA_PAGE, sizes, then DataPageHeader: count, encoding, RLE, RLE.
  const header = struct([
    [1, integer(0)],
    [2, integer(unpacked)],
    [3, integer(packed)],
    [5, struct([[1, integer(count)], [2, integer(encoding)], [3, integer(3)], [4, integer(3)]])], // prettier-ignore
  ]);
  return Buffer.concat([header.bytes, body]);
}

/** Version 2: `levels` in front, and a body that may be packed. */
export function dataPageV2(
  levels: Buffer,
  body: Buffer,
  count: number,
  { encoding = 0, unpacked = levels.length + body.length, isPacked = false }: PageOptions & { readonly isPacked?: boolean } = {}, // prettier-ignore
): Buffer {
  const header = struct([
    [1, integer(3)],
    [2, integer(unpacked)],
    [3, integer(levels.length + body.length)],
    [
      8,
      struct([
        [1, integer(count)],
        [2, integer(0)],
        [3, integer(count)],
        [4, integer(encoding)],
        [5, integer(levels.length)],
        [6, integer(0)],
        [7, isPacked ? yes : no],
      ]),
    ],
  ]);
  return Buffer.concat([header.bytes, levels, body]);
}

export function dictionaryPage(
  body: Buffer,
  count: number,
  { unpacked = body.length }: PageOptions = {},
): Buffer {
  const header = struct([
    [1, integer(2)],
    [2, integer(unpacked)],
    [3, integer(body.length)],
    [7, struct([[1, integer(count)], [2, integer(0)]])], // prettier-ignore
  ]);
  return Buffer.concat([header.bytes, body]);
}

/** A run of one number, as in levels and dictionary indexes. */
export const run = (count: number, ...value: readonly number[]): Buffer =>
  Buffer.concat([varint(2 * count), Buffer.from(value)]);

/** One run of zeros, as Snappy packs it: a letter, and copies of it. */
export function packRepeated(size: number): Buffer {
  const copies = Math.floor((size - 1) / 64);
  const rest = size - 1 - 64 * copies;
  return Buffer.concat([
    varint(size),
    Buffer.from([0, 0]),
    Buffer.from(new Array<number[]>(copies).fill([(63 << 2) | 2, 1, 0]).flat()),
    Buffer.from(rest === 0 ? [] : [((rest - 1) << 2) | 2, 1, 0]),
  ]);
}

export function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

/** A value in Thrift's compact protocol, with its type. */
export interface Value {
  readonly type: number;
  readonly bytes: Buffer;
}

const types = { yes: 1, no: 2, integer: 5, long: 6, binary: 8, list: 9, struct: 12 } as const;

export function varint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value;
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) bytes.push((rest % 0x80) | 0x80);
  return Buffer.from([...bytes, rest]);
}
const yes: Value = { type: types.yes, bytes: Buffer.alloc(0) };
const no: Value = { type: types.no, bytes: Buffer.alloc(0) };
export const integer = (value: number): Value => ({ type: types.integer, bytes: varint(2 * value) });
export const long = (value: number): Value => ({ type: types.long, bytes: varint(2 * value) });
export function binary(text: string): Value {
  const bytes = Buffer.from(text);
  return { type: types.binary, bytes: Buffer.concat([varint(bytes.length), bytes]) };
}
export function list(values: readonly Value[]): Value {
  const head = (values.length << 4) | values[0]!.type;
  const start = values.length < 15 ? Buffer.from([head]) : Buffer.concat([Buffer.from([0xf0 | values[0]!.type]), varint(values.length)]); // prettier-ignore
  return { type: types.list, bytes: Buffer.concat([start, ...values.map(({ bytes }) => bytes)]) };
}
export function struct(fields: readonly (readonly [id: number, value: Value])[]): Value {
  let before = 0;
  const parts = fields.flatMap(([id, { type, bytes }]) => {
    const head = Buffer.from([((id - before) << 4) | type]);
    before = id;
    return [head, bytes];
  });
  return { type: types.struct, bytes: Buffer.concat([...parts, Buffer.from([0])]) };
}
