import { describe, expect, it } from 'vitest';
import { createFakeTerminal } from '../../test/support/fake-terminal.js';
import { wrap } from './help.js';
import { run } from './program.js';

const commands = [
  'audit',
  'bench',
  'cache',
  'compare',
  'demo',
  'generate',
  'harden',
  'inspect',
  'serve',
  'train',
];

async function helpOf(argv: readonly string[], columns: number): Promise<string> {
  const terminal = createFakeTerminal({
    isTerminal: true,
    columns: () => columns,
    environment: { NO_COLOR: '1' },
  });
  expect(await run(argv, terminal)).toBe(0);
  return terminal.written.out;
}

const wordsOf = (text: string): string[] =>
  text
    .replace(/ \\$/gm, '')
    .replace(/^ *# /gm, '')
    .split(/\s+/)
    .filter((word) => word !== '')
    .sort();

describe.each([[], ...commands.map((name) => [name])])('the help of %s', (...command) => {
  it.each(['--help', '--help-all'])(
    '%s fits 40, 80 and 120 columns without breaking a word',
    async (flag) => {
      const wide = await helpOf([...command, flag], 200);
      for (const columns of [40, 80, 120]) {
        const text = await helpOf([...command, flag], columns);
        expect(wordsOf(text)).toEqual(wordsOf(wide));
        const tooLong = text.split('\n').filter((line) => line.length > columns);
        expect(tooLong.filter((line) => line.trim().includes(' ') && !line.endsWith('\\'))).toEqual([]);
      }
    },
  );

  it('shows at most 20 flags, and all of them on request', async () => {
    const count = (text: string): number => text.split('\n').filter((line) => /^ {2}-/.test(line)).length;
    const short = count(await helpOf([...command, '--help'], 80));
    expect(short).toBeLessThanOrEqual(20);
    expect(count(await helpOf([...command, '--help-all'], 80))).toBeGreaterThanOrEqual(short);
  });
});

describe('wrap', () => {
  it('breaks between words only', () => {
    expect(wrap('one two three', 7)).toEqual(['one two', 'three']);
    expect(wrap('enormously long', 4)).toEqual(['enormously', 'long']);
  });
});
