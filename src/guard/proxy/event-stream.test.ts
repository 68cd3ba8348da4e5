import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { dataOf, EventStream } from './response-reader.js';

const bytesOf = (text: string): Buffer => Buffer.from(text);

function readPieces(bytes: Buffer, cuts: readonly number[]): readonly string[] {
  const stream = new EventStream();
  const places = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).sort((a, b) => a - b), bytes.length];
  return places
    .slice(1)
    .flatMap((end, index) => stream.push(bytes.subarray(places[index], end)))
    .map(({ text, isWhole }) => (isWhole ? dataOf(text) : 'a piece'));
}

describe('EventStream', () => {
  it.each([
    ['data: a\n\ndata: b\n\n', ['a', 'b']],
    ['data: a\r\n\r\ndata: b\r\rdata: c', ['a', 'b']],
    ['data:a\ndata: b\ndata:  c\n\n', ['a\nb\n c']],
    [': a comment\nevent: x\nid: 1\nretry: 5\ndata\n\n', ['']],
    ['database: 1\ndatab\nnonsense\n\n', ['']],
    ['event: x\n\n', ['']],
    ['\ufeffdata: after a mark\n\n', ['after a mark']],
    ['data: half', []],
    ['data: whole line, no event\n', []],
  ])('reads %j', (text, events) => {
    expect(readPieces(bytesOf(text), [])).toEqual(events);
  });

  it('keeps every byte, whatever its encoding', () => {
    const [event] = new EventStream().push(bytesOf('data: {"a":"Grüße 🌿"}\n\n'));
    expect(Buffer.from(event!.text, 'latin1').toString()).toBe('data: {"a":"Grüße 🌿"}\n\n');
  });

  it('gives events that are too long in pieces, and goes on behind them', () => {
    const long = `data: ${'x'.repeat(1 << 20)}`;
    for (const cuts of [[], [100], [1 << 20, (1 << 20) + 6, (1 << 20) + 7]]) {
      const bytes = bytesOf(`${long}\ndata: {"forged":1}\n\ndata: ok\n\n`);
      const events = readPieces(bytes, cuts);
      expect(events.at(-1)).toBe('ok');
      if (cuts.length === 3) expect(events.slice(0, -1)).toEqual(['a piece', 'a piece']);
    }
    const ended = bytesOf(`${long}\n\ndata: ok\n\n`);
    expect(readPieces(ended, [long.length + 1]).at(-1)).toBe('ok');
  });

  it('is quick with a long event in many pieces', () => {
    const stream = new EventStream();
    const piece = bytesOf('x'.repeat(100));
    const startMs = performance.now();
    for (let count = 0; count < 10_000; count++) stream.push(piece);
    expect(performance.now() - startMs).toBeLessThan(2000);
  });

  it.each([
    ['data: a\r\r', true],
    ['data: a\n\r', true],
    ['data: a\r', false],
    ['data: a', false],
  ])('ends %j as an event: %s', (text, isWhole) => {
    const stream = new EventStream();
    expect(stream.push(bytesOf(text))).toEqual([]);
    expect(stream.finish()).toEqual([{ text, isWhole }]);
    expect(stream.finish()).toEqual([]);
  });

  it('gives out an event with the byte that ends it', () => {
    const stream = new EventStream();
    expect(stream.push(bytesOf('data: a\r\n\r'))).toEqual([]);
    expect(stream.push(bytesOf('\n'))).toEqual([{ text: 'data: a\r\n\r\n', isWhole: true }]);
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
    const bytes = fc.oneof(
      text.map(bytesOf),
      fc.uint8Array({ maxLength: 64 }).map((each) => Buffer.from(each)),
    );
    fc.assert(
      fc.property(bytes, fc.array(fc.nat()), (given, cuts) => {
        expect(readPieces(given, cuts)).toEqual(readPieces(given, []));
      }),
      { numRuns: 1000, seed: 13 },
    );
  });
});
