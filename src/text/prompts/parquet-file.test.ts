import { parquetReadObjects } from 'hyparquet';
import { describe, expect, it } from 'vitest';
import { hostileParquets } from '../../../test/support/text/hostile-parquets.js';
import {
  dataPage,
  dataPageV2,
  dictionaryPage,
  joinParquet,
  plainTexts,
  run,
  uint32,
  varint,
  type WrittenColumn,
  writeParquet,
} from '../../../test/support/write-parquet.js';
import { readParquetTexts } from './parquet-file.js';

const texts = ['Grüße', '', 'two\nlines', '比萨 🍕'];
const literal = (body: Buffer): Buffer =>
  Buffer.concat([varint(body.length), Buffer.from([(body.length - 1) << 2]), body]);
const levels = (...parts: readonly Buffer[]): Buffer => {
  const all = Buffer.concat(parts);
  return Buffer.concat([uint32(all.length), all]);
};
/** `ab`, then a copy of six bytes that begins two bytes back. */
const copied = Buffer.concat([varint(12), Buffer.from([5 << 2]), uint32(8), Buffer.from('ab'), Buffer.from([(5 << 2) | 2, 2, 0])]); // prettier-ignore
const dictionary = dictionaryPage(plainTexts(texts), texts.length);
const bits = (...bytes: readonly number[]): Buffer => Buffer.from([...varint(3), ...bytes]);

const columns: readonly (readonly [string, number, Omit<WrittenColumn, 'name'>])[] = [
  ['plain texts', 4, { pages: dataPage(plainTexts(texts), 4) }],
  ['two pages', 4, { pages: Buffer.concat([dataPage(plainTexts(texts.slice(0, 1)), 1), dataPage(plainTexts(texts.slice(1)), 3)]) }], // prettier-ignore
  ['a page that Snappy packs', 1, { codec: 1, pages: dataPage(copied, 1, { unpacked: 12 }) }],
  ['a page that Snappy stores', 4, { codec: 1, pages: dataPage(literal(plainTexts(texts)), 4, { unpacked: plainTexts(texts).length }) }], // prettier-ignore
  [
    'a dictionary and a run',
    5,
    { hasDictionary: true, pages: Buffer.concat([dictionary, dataPage(Buffer.concat([Buffer.from([2]), run(3, 3), run(2, 1)]), 5, { encoding: 8 })]) }, // prettier-ignore
  ],
  [
    'a dictionary and packed numbers',
    8,
    { hasDictionary: true, pages: Buffer.concat([dictionary, dataPage(Buffer.from([2, ...bits(0b11100100, 0b00011011)]), 8, { encoding: 8 })]) }, // prettier-ignore
  ],
  [
    'texts that are missing',
    4,
    { isOptional: true, pages: dataPage(Buffer.concat([levels(run(1, 1), run(2, 0), run(1, 1)), plainTexts(['a', 'b'])]), 4) }, // prettier-ignore
  ],
  ['no text at all', 3, { isOptional: true, pages: dataPage(levels(run(3, 0)), 3) }],
  ['a page of version 2', 4, { pages: dataPageV2(Buffer.alloc(0), plainTexts(texts), 4) }],
  [
    'a packed page of version 2',
    1,
    { codec: 1, isOptional: true, pages: dataPageV2(run(1, 1), copied, 1, { unpacked: 14, isPacked: true }) },
  ],
];

/** What hyparquet reads, which other files of the world were checked against. */
async function readByOther(bytes: Buffer): Promise<unknown> {
  const file = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length) as ArrayBuffer;
  return JSON.parse(JSON.stringify(await parquetReadObjects({ file })));
}

describe('text columns of a Parquet file', () => {
  it.each(columns)('are read as by hyparquet: %s', async (_, rows, column) => {
    const bytes = joinParquet([{ name: 'question', ...column }], rows);
    const found = readParquetTexts(bytes, ['question']);
    expect(found).toHaveLength(rows);
    expect(found).toEqual(await readByOther(bytes));
  });

  it('are read from several groups of rows, and only those that are asked for', () => {
    const bytes = joinParquet(
      [
        { name: 'id', codec: 6, pages: Buffer.from('packed by something else') },
        { name: 'question', pages: dataPage(plainTexts(texts), 4) },
      ],
      4,
      3,
    );
    expect(readParquetTexts(bytes, ['question'])).toEqual(
      [...texts, ...texts, ...texts].map((question) => ({ question })),
    );
  });

  it.each<readonly [string, Buffer, RegExp]>([
    ['no Parquet', Buffer.from('a text that is no Parquet file'), /does not end with PAR1/],
    ['nothing', Buffer.alloc(0), /does not end with PAR1/],
    ['other columns', writeParquet([{ a: 'b' }]), /has no column question of texts/],
    ['ZSTD', joinParquet([{ name: 'question', codec: 6, pages: dataPage(plainTexts(['a']), 1) }], 1), /packed by ZSTD; SNAPPY is read/], // prettier-ignore
    ['another encoding', joinParquet([{ name: 'question', pages: dataPage(plainTexts(['a']), 1, { encoding: 7 }) }], 1), /the encoding DELTA_BYTE_ARRAY; PLAIN and RLE_DICTIONARY are read/], // prettier-ignore
    ['too few values', joinParquet([{ name: 'question', pages: dataPage(plainTexts(['a']), 1) }], 2), /ends too early/], // prettier-ignore
  ])('are refused: %s', (_, bytes, message) => {
    expect(() => readParquetTexts(bytes, ['question'])).toThrow(message);
  });

  it.each(hostileParquets.filter(({ name }) => name !== 'a page of 20 MB that Snappy packs'))(
    'are refused: $name',
    ({ bytes }) => {
      let failure: unknown;
      try {
        readParquetTexts(bytes, ['question', 'answer']);
      } catch (cause) {
        failure = cause;
      }
      // A sentence of the reader, not a RangeError of a list that is too long.
      expect((failure as Error).constructor).toBe(Error);
    },
  );
});
