/** Parquet files of a kilobyte or two that announce gigabytes, and some that unfold into them. */
import type { PageOptions } from '../write-parquet.js';
import {
  binary,
  closeParquet,
  dataPage,
  dictionaryPage,
  integer,
  joinParquet,
  list,
  long,
  packRepeated,
  plainTexts,
  run,
  struct,
  uint32,
  varint,
} from '../write-parquet.js';

const billion = 1_000_000_000;
const text = plainTexts(['2 + 2?']);
const answers = { name: 'answer', pages: dataPage(plainTexts(['4']), 1) };

/** GSM8K with these pages of questions. */
const withPages = (pages: Buffer, rows: number, codec = 0, hasDictionary = false): Buffer =>
  joinParquet([{ name: 'question', pages, codec, hasDictionary }, answers], rows);
const withPage = (count: number, options: PageOptions, body = text, codec = 0): Buffer =>
  withPages(dataPage(body, count, options), Math.min(count, 100_000), codec);

const schemaOf = (children: number) => struct([[4, binary('schema')], [5, integer(children)]]); // prettier-ignore
const footer = (schema: ReturnType<typeof list>, rows: number): Buffer =>
  struct([
    [1, integer(1)],
    [2, schema],
    [3, long(rows)],
    [4, list([struct([[1, list([struct([])])], [3, long(rows)]])])], // prettier-ignore
  ]).bytes;

/** A list of a length that is not there. */
const longList = Buffer.concat([Buffer.from([0x29, 0xfc]), varint(billion)]);
/** Every record is the first field of the one before. */
const nested = Buffer.concat([Buffer.alloc(300_000, 0x1c), Buffer.alloc(300_001)]);

const dictionaryOf = (texts: readonly string[], count: number, width = 1): Buffer =>
  Buffer.concat([
    dictionaryPage(plainTexts(texts), texts.length),
    dataPage(Buffer.concat([Buffer.from([width]), run(count, 0)]), count, { encoding: 8 }),
  ]);

export const hostileParquets: readonly { readonly name: string; readonly bytes: Buffer }[] = [
  { name: 'a billion rows', bytes: withPages(dataPage(text, 1), billion) },
  { name: '2^62 rows', bytes: withPages(dataPage(text, 1), 2 ** 62) },
  { name: 'a billion values in a page', bytes: withPage(billion, {}) },
  {
    name: 'a billion values of a dictionary',
    bytes: withPages(dictionaryOf(['a'], billion), 100_000, 0, true),
  },
  { name: 'a billion texts in a dictionary', bytes: withPages(dictionaryPage(text, billion), 1, 0, true) },
  { name: 'a run of two billion', bytes: withPages(dictionaryOf(['a'], 2 ** 31 - 1, 24), 1, 0, true) },
  { name: 'numbers of 255 bits', bytes: withPages(dictionaryOf(['a'], 1, 255), 1, 0, true) },
  { name: 'a page of a billion unpacked bytes', bytes: withPage(1, { unpacked: billion }, text, 1) },
  { name: 'Snappy that announces 2 GB', bytes: withPage(1, { unpacked: 2 ** 31 - 1 }, Buffer.concat([varint(2 ** 31 - 1), text]), 1) }, // prettier-ignore
  { name: 'a page of two billion packed bytes', bytes: withPage(1, { packed: 2 ** 31 - 1 }) },
  {
    name: 'a text of four billion bytes',
    bytes: withPage(1, {}, Buffer.concat([uint32(2 ** 32 - 1), text])),
  },
  { name: 'a page of 20 MB that Snappy packs', bytes: withPage(1, { unpacked: 20_000_000 }, packRepeated(20_000_000), 1) }, // prettier-ignore
  {
    name: '100,000 times a text of 500,000 letters',
    bytes: withPages(dictionaryOf(['a'.repeat(500_000)], 100_000), 100_000, 0, true),
  },
  { name: '15,000 groups of rows', bytes: joinParquet([{ name: 'question', pages: dataPage(text, 1) }, answers], 1, 15_000) }, // prettier-ignore
  { name: 'a list of a billion columns', bytes: closeParquet([], longList) },
  { name: '300,000 nested records', bytes: closeParquet([], nested) },
  { name: 'a schema of a billion columns', bytes: closeParquet([], footer(list([schemaOf(billion)]), 1)) },
  {
    name: 'a schema of 20,000 levels',
    bytes: closeParquet([], footer(list(new Array(20_000).fill(schemaOf(1))), 1)),
  },
  { name: 'a description of four gigabytes', bytes: Buffer.concat([Buffer.from('PAR1'), uint32(2 ** 32 - 1), Buffer.from('PAR1')]) }, // prettier-ignore
];
