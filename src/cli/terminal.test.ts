import { stripVTControlCharacters } from 'node:util';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { asOneLine, createColors, createOutput, withoutControls } from './terminal.js';
import type { Output } from './terminal.js';

function record(isTerminal: boolean, use: (output: Output) => void): string {
  let written = '';
  use(createOutput({ isTerminal, columns: () => undefined, write: (text) => (written += text) }));
  return written;
}

const kinds = [true, false];
const escape = '\u001b';

describe('withoutControls', () => {
  it('keeps text, tabs and newlines, and replaces what would steer a terminal', () => {
    expect(withoutControls('naïve\tcafé\n世界 👋')).toBe('naïve\tcafé\n世界 👋');
    expect(withoutControls('a\u001b[2Jb\rc\u009bd\u202ee\u0007')).toBe(
      'a\ufffd[2Jb\ufffdc\ufffdd\ufffde\ufffd',
    );
    for (const mark of '\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069')
      expect(withoutControls(`a${mark}b`)).toBe('a\ufffdb');
  });

  it('keeps names on their line where they are asked to', () => {
    expect(asOneLine('a\r\n\n  b\u2028c\u001b[1A')).toBe('a b c\ufffd[1A');
  });
});

describe('an output', () => {
  it.each(kinds)('lets nothing through that steers, to a terminal: %s', (isTerminal) => {
    // Everything but what a reader sees, tabs and line ends.
    const steering = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/;
    const piece = fc.constantFrom(
      escape,
      '[',
      '2J',
      ']0;x',
      '\u0007',
      '\r',
      '\u009b',
      '31m',
      '\u202e',
      'a',
      '\n',
    );
    fc.assert(
      fc.property(fc.array(piece), (pieces) => {
        const text = record(isTerminal, (output) => {
          for (const each of [pieces.join(''), ...pieces]) output.write(each);
        });
        expect(text).not.toMatch(steering);
      }),
    );
  });

  it.each(kinds)('shows our own colours and nobody else’s, to a terminal: %s', (isTerminal) => {
    const { red, bold } = createColors(true);
    const text = record(isTerminal, (output) => {
      output.write(`${red(`a${escape}[32mb`)} ${bold(`c ${red('d')}`)}`);
    });
    expect(text).toBe(
      `${escape}[31ma\ufffd[32mb${escape}[39m ${escape}[1mc ${escape}[31md${escape}[39m${escape}[22m`,
    );
  });

  it('begins a style anew behind another one inside it', () => {
    const { bold, dim } = createColors(true);
    const text = record(true, (output) => {
      output.write(bold(`a${dim('b')}c`));
    });
    expect(text).toBe(`${escape}[1ma${escape}[2mb${escape}[22m${escape}[1mc${escape}[22m`);
  });

  it('has colours that take no room, and none where there shall be none', () => {
    expect(stripVTControlCharacters(createColors(true).green('word'))).toBe('word');
    expect(createColors(false).green('word')).toBe('word');
  });

  it('writes data as it is into files and pipes, and cleaned to a terminal', () => {
    const data = `{"a":"\u202e\u007f"}${escape}[2J\r\n`;
    const write = (output: Output): void => {
      output.writeData(data);
    };
    expect(record(false, write)).toBe(data);
    expect(record(true, write)).toBe('{"a":"\ufffd\ufffd"}\ufffd[2J\ufffd\n');
  });

  it('moves the cursor where it is asked to, and by nothing else', () => {
    const steer = (sequence: string): string => record(true, (output) => { output.steer(sequence); }); // prettier-ignore
    expect(steer(`\r${escape}[K`)).toBe(`\r${escape}[K`);
    expect(steer(`${escape}[1G${escape}[2K`)).toBe(`${escape}[1G${escape}[2K`);
    for (const other of [`${escape}]0;title\u0007`, `${escape}[?25l`, `${escape}[6n`, `${escape}c`])
      expect(steer(other)).not.toContain(escape);
  });
});
