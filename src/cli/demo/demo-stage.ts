/** Shared by the parts of the demo: the target, and output for 80 columns with and without color. */
import { stripVTControlCharacters } from 'node:util';
import type { Target } from '../../decode/target.js';
import type { MachineFlags } from '../common-flags.js';
import type { Colors, Terminal } from '../terminal.js';
import { colorsFor } from '../terminal.js';

export const stageWidth = 80;

export interface DemoFlags extends MachineFlags {
  readonly act: '1' | '2' | undefined;
  readonly out: string | undefined;
}

export interface Stage {
  readonly terminal: Terminal;
  readonly target: Target;
  readonly flags: DemoFlags;
  readonly signal: AbortSignal;
  /** True after Ctrl-C, or if output can no longer be written. */
  readonly isOver: () => boolean;
  readonly colors: Colors;
  /** One line, or an empty one. */
  readonly say: (line?: string) => void;
  readonly write: (text: string) => void;
}

/** `number` is shown in the heading. */
export type Act = (stage: Stage, number: number) => Promise<void>;

export function createStage(parts: Pick<Stage, 'terminal' | 'target' | 'flags' | 'signal'>): Stage {
  const { stdout } = parts.terminal;
  const write = (text: string): void => {
    stdout.write(text);
  };
  return {
    ...parts,
    isOver: () => parts.signal.aborted,
    colors: colorsFor(stdout, parts.terminal),
    write,
    say: (line = '') => {
      write(`${line}\n`);
    },
  };
}

export function sayHeading({ colors, say }: Stage, number: number, title: string): void {
  say();
  say(colors.bold(`${number}  ${title}`));
  say(colors.dim('─'.repeat(stageWidth)));
}

/** A name, a number, and a bar of up to `width` columns. */
export interface BarLine {
  readonly name: string;
  readonly figure: string;
  readonly value: number;
  readonly paint: (text: string) => string;
  readonly note?: string;
}

export function sayBars({ say }: Stage, lines: readonly BarLine[], width = 32): void {
  const longest = (values: readonly string[]): number => Math.max(...values.map(({ length }) => length));
  const nameWidth = longest(lines.map(({ name }) => name));
  const figureWidth = longest(lines.map(({ figure }) => figure));
  const most = Math.max(...lines.map(({ value }) => value));
  for (const { name, figure, value, paint, note } of lines) {
    const length = most > 0 ? Math.max(1, Math.round((width * value) / most)) : 0;
    const parts = [name.padEnd(nameWidth), figure.padStart(figureWidth), paint('█'.repeat(length))];
    say(`  ${[...parts, ...(note === undefined ? [] : [note])].join('  ')}`);
  }
}

export interface Wrapper {
  add(text: string): void;
  finish(): void;
}

/**
 * Wraps streamed text behind a gutter. A word is held until a space ends it. Colors have no width; they cover only
 * letters and end before the text's own line breaks.
 */
export function createWrapper(write: (text: string) => void, gutter: string, width: number): Wrapper {
  let column = 0;
  let spaces = '';
  let word = '';
  let isFresh = true;
  const flush = (): void => {
    const length = stripVTControlCharacters(word).length;
    if (length > 0) {
      if (column > 0 && column + spaces.length + length > width) {
        write('\n');
        isFresh = true;
        column = 0;
        spaces = '';
      }
      if (isFresh) write(gutter);
      isFresh = false;
      write(spaces);
      column += spaces.length + length;
      spaces = '';
    }
    write(word);
    word = '';
  };
  return {
    add(text) {
      for (const character of text) {
        if (character === '\n') {
          flush();
          write(isFresh ? `${gutter}\n` : '\n');
          [column, spaces, isFresh] = [0, '', true];
        } else if (character === ' ' || character === '\t') {
          if (word !== '') flush();
          spaces += character === '\t' ? '    ' : ' ';
        } else word += character;
      }
    },
    finish() {
      flush();
      if (!isFresh) write('\n');
    },
  };
}
