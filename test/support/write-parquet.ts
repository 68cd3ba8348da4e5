/** Writes small Parquet files: one row group, required text columns, plain encoding, no compression. */
export function writeParquet(rows: readonly Readonly<Record<string, string>>[]): Buffer {
  const names = Object.keys(rows[0]!);
  const magic = Buffer.from('PAR1');
  const parts: Buffer[] = [magic];
  let offset = magic.length;
  const columns = names.map((name) => {
    const values = Buffer.concat(
      rows.flatMap((row) => {
        const text = Buffer.from(row[name]!);
        const length = Buffer.alloc(4);
        length.writeUInt32LE(text.length);
        return [length, text];
      }),
    );
    // DATA_PAGE, sizes, then DataPageHeader: count, PLAIN, RLE, RLE.
    const header = struct([
      [1, integer(0)],
      [2, integer(values.length)],
      [3, integer(values.length)],
      [5, struct([[1, integer(rows.length)], [2, integer(0)], [3, integer(3)], [4, integer(3)]])], // prettier-ignore
    ]);
    const page = Buffer.concat([header.bytes, values]);
    parts.push(page);
    const own = { name, offset, size: page.length };
    offset += page.length;
    return own;
  });
  const schema = [
    struct([[4, binary('schema')], [5, integer(names.length)]]), // prettier-ignore
    // BYTE_ARRAY, REQUIRED, name, UTF8.
    ...names.map((name) => struct([[1, integer(6)], [3, integer(0)], [4, binary(name)], [6, integer(0)]])), // prettier-ignore
  ];
  const chunks = columns.map((column) =>
    struct([
      [2, long(column.offset)],
      [
        3,
        struct([
          [1, integer(6)],
          [2, list([integer(0)])],
          [3, list([binary(column.name)])],
          [4, integer(0)],
          [5, long(rows.length)],
          [6, long(column.size)],
          [7, long(column.size)],
          [9, long(column.offset)],
        ]),
      ],
    ]),
  );
  const group = struct([[1, list(chunks)], [2, long(offset)], [3, long(rows.length)]]); // prettier-ignore
  const footer = struct([
    [1, integer(1)],
    [2, list(schema)],
    [3, long(rows.length)],
    [4, list([group])],
  ]).bytes;
  const length = Buffer.alloc(4);
  length.writeUInt32LE(footer.length);
  return Buffer.concat([...parts, footer, length, magic]);
}

/** A value in Thrift's compact protocol, with its type. */
interface Value {
  readonly type: number;
  readonly bytes: Buffer;
}

const types = { integer: 5, long: 6, binary: 8, list: 9, struct: 12 } as const;

function varint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value;
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) bytes.push((rest % 0x80) | 0x80);
  return Buffer.from([...bytes, rest]);
}
const integer = (value: number): Value => ({ type: types.integer, bytes: varint(2 * value) });
const long = (value: number): Value => ({ type: types.long, bytes: varint(2 * value) });
function binary(text: string): Value {
  const bytes = Buffer.from(text);
  return { type: types.binary, bytes: Buffer.concat([varint(bytes.length), bytes]) };
}
function list(values: readonly Value[]): Value {
  const head = (values.length << 4) | values[0]!.type;
  const start = values.length < 15 ? Buffer.from([head]) : Buffer.concat([Buffer.from([0xf0 | values[0]!.type]), varint(values.length)]); // prettier-ignore
  return { type: types.list, bytes: Buffer.concat([start, ...values.map(({ bytes }) => bytes)]) };
}
function struct(fields: readonly (readonly [id: number, value: Value])[]): Value {
  let before = 0;
  const parts = fields.flatMap(([id, { type, bytes }]) => {
    const head = Buffer.from([((id - before) << 4) | type]);
    before = id;
    return [head, bytes];
  });
  return { type: types.struct, bytes: Buffer.concat([...parts, Buffer.from([0])]) };
}
