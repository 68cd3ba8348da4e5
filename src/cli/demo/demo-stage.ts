/** Shared by the parts of the demo: the target, and output for 80 columns with and without color. */
import type { Target } from '../../decode/target.js';
import type { MachineFlags } from '../common-flags.js';
import { wrap } from '../help.js';
import { type Colors, type Terminal, colorsFor } from '../terminal.js';

export const stageWidth = 80;

export interface DemoFlags extends MachineFlags {
  readonly act: '1' | '2' | undefined;
  readonly out: string | undefined;
}

export interface Stage {
  readonly terminal: Terminal;
  readonly target: Target;
  readonly flags: DemoFlags;
  /** Aborts after Ctrl-C, or if output can no longer be written. */
  readonly signal: AbortSignal;
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

const barWidth = 32;

/** A name, a number, and a bar. */
export interface BarLine {
  readonly name: string;
  readonly figure: string;
  readonly value: number;
  readonly paint: (text: string) => string;
  readonly note?: string;
}

export function sayBars(say: Stage['say'], lines: readonly BarLine[]): void {
  const longest = (values: readonly string[]): number => Math.max(...values.map(({ length }) => length));
  const nameWidth = longest(lines.map(({ name }) => name));
  const figureWidth = longest(lines.map(({ figure }) => figure));
  const most = Math.max(...lines.map(({ value }) => value));
  for (const { name, figure, value, paint, note } of lines) {
    const length = most > 0 ? Math.max(1, Math.round((barWidth * value) / most)) : 0;
    const parts = [name.padEnd(nameWidth), figure.padStart(figureWidth), paint('█'.repeat(length))];
    say(`  ${[...parts, ...(note === undefined ? [] : [note])].join('  ')}`);
  }
}

export interface Wrapper {
  add(text: string): void;
  finish(): void;
}

/** Wraps streamed text behind a gutter, line by line. */
export function createWrapper(write: (text: string) => void, gutter: string, width: number): Wrapper {
  let line = '';
  const print = (text: string): void => {
    for (const part of wrap(text.replaceAll('\t', '    '), width)) write(`${gutter}${part}\n`);
  };
  return {
    add(text) {
      const lines = `${line}${text}`.split('\n');
      line = lines.pop()!;
      lines.forEach(print);
    },
    finish() {
      if (line !== '') print(line);
    },
  };
}
