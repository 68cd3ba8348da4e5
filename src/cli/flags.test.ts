import { Command } from 'commander';
import { describe, expect, it } from 'vitest';
import { integer, oneOf, text } from '../core/settings.js';
import type { FlagTable } from './flags.js';
import { addFlags, flag, list, parseFlags, toggle } from './flags.js';

const table = {
  steps: flag('steps', integer(1, 9), 'count', { short: 's', was: ['--old-steps'] }),
  rate: flag('rate', text, 'number', { flag: 'learning-rate' }),
  names: list('names', oneOf(['a', 'b']), 'name', { was: ['--letters'] }),
  paths: list('paths', text, 'path'),
  quiet: toggle('quiet'),
} satisfies FlagTable;

function parse(...argv: string[]): ReturnType<typeof parseFlags> {
  const command = addFlags(
    new Command('test').exitOverride().configureOutput({ outputError: () => undefined }),
    table,
  );
  command.parse(argv, { from: 'user' });
  return parseFlags(command, table);
}

describe('flags', () => {
  it('have the values that were typed, by the names of the table', () => {
    const { values, notes } = parse('-s', '3', '--learning-rate', 'x', '--quiet');
    expect(Object.fromEntries(values)).toEqual({ steps: 3, rate: 'x', quiet: true });
    expect(notes).toEqual([]);
  });

  it('that are lists are repeated; commas still work where no value has one', () => {
    expect(parse('--names', 'a', '--names', 'b').values.get('names')).toEqual(['a', 'b']);
    expect(parse('--names', 'a,b').values.get('names')).toEqual(['a', 'b']);
    expect(parse('--paths', 'x,y').values.get('paths')).toEqual(['x,y']);
  });

  it('work under their old names, with a note', () => {
    const { values, notes } = parse('--old-steps', '4', '--letters', 'a', 'b');
    expect(Object.fromEntries(values)).toEqual({ steps: 4, names: ['a', 'b'] });
    expect(notes).toEqual([
      '--old-steps is now --steps; the old name still works.',
      '--letters is now --names; the old name still works.',
    ]);
  });

  it.each([
    [['--steps', '0'], 'Expected a whole number from 1 to 9.'],
    [['--names', 'a,c'], 'Expected one of a, b.'],
    [['--steps', '0x3'], 'Expected a whole number'],
  ])('refuse %j', (argv, message) => {
    expect(() => parse(...argv)).toThrow(message);
  });
});
