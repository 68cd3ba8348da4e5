/** The rules that the reader is held against, rule by rule: a wrong one would hide a fault. */
import { describe, expect, it } from 'vitest';
import { joinSafetensors } from '../support/checkpoint/write-safetensors.js';
import { readByReference } from './reference-safetensors.js';

const entry = '{"dtype":"F32","shape":[2],"data_offsets":[0,8]}';
const read = (header: string, bytes = 8): ReturnType<typeof readByReference> =>
  readByReference(joinSafetensors(header, Buffer.alloc(bytes)));

type OddCase = [name: string, header: string, oddity: string, bytes?: number];

describe('the reference implementation accepts', () => {
  it.each([
    ['a plain header', `{"x":${entry}}`],
    ['blanks inside and behind', ` {"x" :\n${entry} }\t\r\n`.trimStart()],
    ['metadata of texts', `{"__metadata__":{"format":"pt"},"x":${entry}}`],
    ['metadata that is null', `{"__metadata__":null,"x":${entry}}`],
    ['fields that nobody knows', '{"x":{"dtype":"F32","more":["a",{}],"shape":[2],"data_offsets":[0,8]}}'],
    ['a pair of surrogates', `{"\\ud83d\\ude00":${entry}}`],
  ])('%s', (_, header) => {
    expect(read(header)).toMatchObject({ tensors: [{ dtype: 'F32', shape: [2n] }], oddities: [] });
  });

  it.each([
    ['a name twice', `{"x":${entry},"x":${entry}}`, 'a name twice'],
    ['a blank before the brace', ` {"x":${entry}}`, 'the header does not begin with a brace'],
    ['a list of fields', '{"x":["F32",[2],[0,8]]}', 'a tensor described by a list'],
    [
      'a dtype as an object',
      `{"x":${entry.replace('"F32"', '{"F32":null}')}}`,
      'a dtype written as an object',
    ],
    [
      'a dtype that is rare',
      '{"x":{"dtype":"U16","shape":[4],"data_offsets":[0,8]}}',
      'a dtype that is not read here',
    ],
    [
      'no elements of 2^53',
      '{"x":{"dtype":"U8","shape":[0,9007199254740992],"data_offsets":[0,0]}}',
      'a size that is no exact number in JavaScript',
      0,
    ],
    [
      'a fraction where nobody looks',
      '{"x":{"dtype":"F32","a":1.5,"shape":[2],"data_offsets":[0,8]}}',
      'a number that is no size in a field that is ignored',
    ],
  ] satisfies OddCase[])('%s, which is odd', (...[, header, oddity, bytes]: OddCase) => {
    expect(read(header, bytes)?.oddities).toEqual([oddity]);
  });
});

describe('the reference implementation refuses', () => {
  it.each([
    ...['1.0', '2e0', '-0', '-2', '"2"', 'null', '18446744073709551616', '[2]', '02'].map(
      (size) => `{"x":${entry.replace('[2]', `[${size}]`)}}`,
    ),
    ...['"f32"', '"F33"', 'null', '1', '{"F32":1}'].map((dtype) => `{"x":${entry.replace('"F32"', dtype)}}`),
    ...['[0]', '[0,8,8]', '[8,0]', '[1,9]', '[0,4]', '{}'].map(
      (offsets) => `{"x":${entry.replace('[0,8]', offsets)}}`,
    ),
    `{"x":${entry.replace('"shape":[2]', '"shape":[2],"shape":[2]')}}`,
    '{"x":{"dtype":"F32","shape":[2]}}',
    `{"__metadata__":{"format":1},"x":${entry}}`,
    `{"__metadata__":{},"__metadata__":{},"x":${entry}}`,
    `{"\\ud800":${entry}}`,
    `{"x":${entry},}`,
    `{"x":${entry}} {}`,
    `{"x":${entry.replace('"dtype"', `"a":${'['.repeat(200)}${']'.repeat(200)},"dtype"`)}}`,
    `{"x":${entry.replace('"dtype"', '"a":1e999,"dtype"')}}`,
    '[]',
    '',
  ])('%.80s', (header) => {
    expect(read(header)).toBeUndefined();
  });

  it('bytes that the header does not speak of, and a header that is not there', () => {
    expect(read(`{"x":${entry}}`, 9)).toBeUndefined();
    expect(readByReference(Buffer.alloc(7))).toBeUndefined();
    expect(readByReference(Buffer.alloc(16, 255))).toBeUndefined();
  });
});
