/**
 * The header's rules against the reference implementation. `reference` is what safetensors.deserialize of the Python
 * package safetensors 0.8.0 said of the same bytes; what it refuses must be refused here.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { readSafetensorsHeader } from './safetensors.js';
import { makeTemporaryFolder } from '../../../test/support/checkpoint/temporary-folder.js';
import { joinSafetensors } from '../../../test/support/checkpoint/write-safetensors.js';

const folder = makeTemporaryFolder();
afterAll(folder.remove);
const path = join(folder.path, 'x.safetensors');

const whole = '"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}';
/** One tensor of 8 bytes whose entry has these fields in place of, or behind, its own. */
const changed = (fields: string): string => `{"a":{${fields}}}`;
const added = (field: string): string => changed(`"dtype":"F32","shape":[2],"data_offsets":[0,8],${field}`);
const nested = (levels: number): string => added(`"x":${'['.repeat(levels)}${']'.repeat(levels)}`);
const beside = (entry: string): string => `{${whole},"e":${entry}}`;

type Verdict = 'accepts' | 'refuses';

async function judge(header: string): Promise<string> {
  writeFileSync(path, joinSafetensors(header, new Uint8Array(8)));
  return readSafetensorsHeader(path).then(
    () => 'accepted',
    (failure: unknown) => {
      expect(failure).toMatchObject({ name: 'MistletoeError', code: 'checkpoint' });
      return (failure as Error).message;
    },
  );
}

describe('a header that both accept', () => {
  it.each([
    ['as it is written', `{${whole}}`],
    ['padded with blanks', `{${whole}}   `],
    ['padded with line ends', `{${whole}}\n\n`],
    ['with metadata', `{"__metadata__":{"format":"pt"},${whole}}`],
    ['with metadata of null', `{"__metadata__":null,${whole}}`],
    ['with a further field', added('"x":"y"')],
    ['nested 127 levels', nested(125)],
    ['with an escaped field', changed('"d\\u0074ype":"F32","shape":[2],"data_offsets":[0,8]')],
    ['with a pair of surrogates', `{"\\ud83d\\ude00":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`],
    ['with an empty tensor at the end', beside('{"dtype":"F32","shape":[0],"data_offsets":[8,8]}')],
  ])('%s', async (_, header) => {
    expect(await judge(header)).toBe('accepted');
  });
});

describe('a header that is refused', () => {
  it.each<readonly [string, Verdict, string, RegExp]>([
    ['a NUL behind it', 'refuses', `{${whole}}\0`, /is not JSON/],
    ['a byte order mark', 'refuses', `\ufeff{${whole}}`, /is not JSON/],
    ['blanks before it', 'accepts', ` {${whole}}`, /does not begin with its brace/],
    ['a number as metadata', 'refuses', `{"__metadata__":{"x":1},${whole}}`, /not an object of texts/],
    ['null as metadata', 'refuses', `{"__metadata__":{"x":null},${whole}}`, /not an object of texts/],
    ['a list of metadata', 'refuses', `{"__metadata__":[],${whole}}`, /not an object of texts/],
    ['a text of metadata', 'refuses', `{"__metadata__":"x",${whole}}`, /not an object of texts/],
    ['metadata twice', 'refuses', `{"__metadata__":{},"__metadata__":{},${whole}}`, /"__metadata__" twice/],
    ['a key of metadata twice', 'accepts', `{"__metadata__":{"x":"1","x":"2"},${whole}}`, /"x" twice/],
    ['a tensor twice', 'accepts', `{${whole},${whole}}`, /names "a" twice/],
    ['dtype twice', 'refuses', added('"dtype":"F32"'), /names "dtype" twice/],
    ['shape twice', 'refuses', added('"sh\\u0061pe":[2]'), /names "shape" twice/],
    ['data_offsets twice', 'refuses', added('"data_offsets":[0,8]'), /names "data_offsets" twice/],
    ['a further field twice', 'accepts', added('"x":1,"x":2'), /names "x" twice/],
    ['a fraction in a further field', 'accepts', added('"x":1.5'), /the number 1\.5/],
    ['a number beyond a double', 'refuses', added('"x":1e999'), /the number 1e999/],
    [
      '400 digits',
      'refuses',
      added(`"x":${'9'.repeat(400)}`),
      /the number 9{40}, expected digits below 2\^53/,
    ],
    ['128 levels', 'refuses', nested(126), /nests more than 127 levels/],
    ['-0 as an offset', 'refuses', changed('"dtype":"F32","shape":[2],"data_offsets":[-0,8]'), /number -0,/],
    [
      '0.0 as an offset',
      'refuses',
      changed('"dtype":"F32","shape":[2],"data_offsets":[0.0,8]'),
      /number 0\.0,/,
    ],
    ['2.0 as a size', 'refuses', changed('"dtype":"F32","shape":[2.0],"data_offsets":[0,8]'), /number 2\.0,/],
    ['2e0 as a size', 'refuses', changed('"dtype":"F32","shape":[2e0],"data_offsets":[0,8]'), /number 2e0,/],
    ['half a pair in a name', 'refuses', `{${whole.replace('a', 'a\\ud800')}}`, /half of a surrogate pair/],
    [
      'half a pair in metadata',
      'refuses',
      `{"__metadata__":{"x":"\\udc00"},${whole}}`,
      /half of a surrogate/,
    ],
    ['half a pair in a further field', 'refuses', added('"x":"\\ud800y"'), /half of a surrogate pair/],
    ['half a pair in a field’s name', 'refuses', added('"\\ud800":1'), /half of a surrogate pair/],
    ['an entry as a list', 'accepts', '{"a":["F32",[2],[0,8]]}', /not described by an object/],
    [
      'a dtype as an object',
      'accepts',
      changed('"dtype":{"F32":null},"shape":[2],"data_offsets":[0,8]'),
      /no dtype/,
    ],
    ['an entry of null', 'refuses', `{"b":null,${whole}}`, /not described by an object/],
    [
      'a dtype in small letters',
      'refuses',
      changed('"dtype":"f32","shape":[2],"data_offsets":[0,8]'),
      /"f32"/,
    ],
    ['no dtype', 'refuses', changed('"shape":[2],"data_offsets":[0,8]'), /no dtype/],
    ['three offsets', 'refuses', changed('"dtype":"F32","shape":[2],"data_offsets":[0,8,8]'), /data_offsets/],
    [
      'a size as a text',
      'refuses',
      changed('"dtype":"F32","shape":["2"],"data_offsets":[0,8]'),
      /list of sizes/,
    ],
    [
      'a size of true',
      'refuses',
      changed('"dtype":"F32","shape":[true,2],"data_offsets":[0,8]'),
      /list of sizes/,
    ],
    ['a shape of null', 'refuses', changed('"dtype":"F32","shape":null,"data_offsets":[0,8]'), /no shape/],
    [
      'an empty tensor inside',
      'refuses',
      beside('{"dtype":"F32","shape":[0],"data_offsets":[4,4]}'),
      /overlaps/,
    ],
    [
      'an overflowing product',
      'refuses',
      beside('{"dtype":"F32","shape":[4294967296,4294967296,0],"data_offsets":[8,8]}'),
      /sane product/,
    ],
    [
      'a size that no double holds',
      'accepts',
      beside('{"dtype":"F32","shape":[0,9007199254740993],"data_offsets":[8,8]}'),
      /number 9007199254740993,/,
    ],
    [
      '17 dimensions',
      'accepts',
      changed(`"dtype":"F32","shape":[2${',1'.repeat(16)}],"data_offsets":[0,8]`),
      /sane/,
    ],
    [
      'a dtype that is not read',
      'accepts',
      changed('"dtype":"F8_E4M3","shape":[8],"data_offsets":[0,8]'),
      /F8_E4M3/,
    ],
  ])('%s (the reference %s it)', async (_, __, header, message) => {
    expect(await judge(header)).toMatch(message);
  });
});
