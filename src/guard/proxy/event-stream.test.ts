import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createEventStream } from './response-reader.js';

const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text);

function readWhole(bytes: Uint8Array, most?: number): readonly string[] {
  return createEventStream(most).push(bytes);
}

function readPieces(bytes: Uint8Array, cuts: readonly number[], most?: number): readonly string[] {
  const stream = createEventStream(most);
  const places = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).sort((a, b) => a - b), bytes.length];
  return places.slice(1).flatMap((end, index) => stream.push(bytes.subarray(places[index], end)));
}

describe('createEventStream', () => {
  it.each([
    ['data: a\n\ndata: b\n\n', ['a', 'b']],
    ['data: a\r\n\r\ndata: b\r\r', ['a', 'b']],
    ['data:a\ndata: b\ndata:  c\n\n', ['a\nb\n c']],
    [': a comment\nevent: x\nid: 1\nretry: 5\ndata\n\n', ['']],
    ['database: 1\ndatab\nnonsense\n\n', []],
    ['event: x\n\n', []],
    ['\ufeffdata: behind a mark\n\n', ['behind a mark']],
    ['data: half', []],
    ['data: whole line, no event\n', []],
    ['data: {"a":"Grüße 🌿"}\n\n', ['{"a":"Grüße 🌿"}']],
  ])('reads %j', (text, events) => {
    expect(readWhole(bytesOf(text))).toEqual(events);
  });

  it('passes over lines and events that are too long, and goes on behind them', () => {
    const stream = createEventStream(10);
    const text = 'data: 12345678901\n\ndata: 12345\ndata: 12345\ndata: 1\n\ndata: ok\n\n';
    expect(stream.push(bytesOf(text))).toEqual(['ok']);
  });

  it('gives out an event with the byte that ends it', () => {
    const stream = createEventStream();
    expect(stream.push(bytesOf('data: a\r\n\r'))).toEqual(['a']);
    expect(stream.push(bytesOf('\n'))).toEqual([]);
    expect(stream.push(bytesOf('data: b\n\n'))).toEqual(['b']);
  });

  it('does not depend on how the bytes are cut', () => {
    const line = fc.constantFrom(
      'data: x',
      'data:',
      'data',
      ': c',
      '',
      'data: 🌿é',
      'da',
      'data: 0123456789',
    );
    const end = fc.constantFrom('\n', '\r', '\r\n', '');
    const text = fc.array(fc.tuple(line, end).map((parts) => parts.join(''))).map((lines) => lines.join(''));
    const bytes = fc.oneof(text.map(bytesOf), fc.uint8Array({ maxLength: 64 }));
    fc.assert(
      fc.property(bytes, fc.array(fc.nat()), fc.constantFrom(12, 1000), (given, cuts, most) => {
        expect(readPieces(given, cuts, most)).toEqual(readWhole(given, most));
      }),
      { numRuns: 1000, seed: 13 },
    );
  });
});
