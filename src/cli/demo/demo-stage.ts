/** What the acts of the demo share: a target, and ways to write that look well in 80 columns with and without colour. */
import { stripVTControlCharacters } from 'node:util';
import type { Target } from '../../decode/target.js';
import type { DemoFlags } from './demo.js';
import type { Colors, Terminal } from '../terminal.js';
import { colorsFor } from '../terminal.js';

export const stageWidth = 80;

export interface Stage {
  readonly terminal: Terminal;
  readonly target: Target;
  readonly flags: DemoFlags;
  readonly signal: AbortSignal;
  /** True once nobody watches any more. */
  readonly isOver: () => boolean;
  readonly colors: Colors;
  /** One line, or an empty one. */
  readonly say: (line?: string) => void;
  readonly write: (text: string) => void;
}

/** `number` is the act's place in the demo, for its heading. */
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

/** Names at the left, figures in the middle, a bar whose longest is `width`. */
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
 * Wraps a text that arrives in pieces of words behind a gutter. A word is held until a blank ends it. Colours take no
 * room; they colour letters alone and end before the text's own line breaks.
 */
export function createWrapper(write: (text: string) => void, gutter: string, width: number): Wrapper {
  let column = 0;
  let blanks = '';
  let word = '';
  let isFresh = true;
  const flush = (): void => {
    const length = stripVTControlCharacters(word).length;
    if (length > 0) {
      if (column > 0 && column + blanks.length + length > width) {
        write('\n');
        isFresh = true;
        column = 0;
        blanks = '';
      }
      if (isFresh) write(gutter);
      isFresh = false;
      write(blanks);
      column += blanks.length + length;
      blanks = '';
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
          [column, blanks, isFresh] = [0, '', true];
        } else if (character === ' ' || character === '\t') {
          if (word !== '') flush();
          blanks += character === '\t' ? '    ' : ' ';
        } else word += character;
      }
    },
    finish() {
      flush();
      if (!isFresh) write('\n');
    },
  };
}
