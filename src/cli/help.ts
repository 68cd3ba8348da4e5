/** Help as text: grouped flags, wrapped at the width of the terminal without breaking words. */
import { stripVTControlCharacters } from 'node:util';
import type { Command, Help, Option } from 'commander';
import { isRare } from './flags.js';
import type { Colors } from './terminal.js';

export type Example = readonly [command: string, comment: string];

export interface HelpOptions {
  /** Of the terminal; undefined for a file or a pipe. */
  readonly columns: number | undefined;
  readonly colors: Colors;
  readonly showAll: boolean;
}

const examplesOf = new WeakMap<Command, readonly Example[]>();

export function addExamples(command: Command, examples: readonly Example[]): void {
  examplesOf.set(command, examples);
}

const minWidth = 40;
const maxWidth = 200;
const defaultWidth = 100;

export const helpWidth = (columns: number | undefined): number =>
  Math.min(maxWidth, Math.max(minWidth, columns ?? defaultWidth));

type Row = readonly [term: string, help: string];

export function formatHelp(
  command: Command,
  helper: Help,
  { columns, colors, showAll }: HelpOptions,
): string {
  const width = helpWidth(columns);
  const section = (title: string, rows: readonly Row[]): string[] =>
    rows.length === 0 ? [] : [colors.bold(title), ...layOutRows(rows, width, colors), ''];
  const hiddenCount = helper.visibleOptions(command).filter(isRare).length;
  const lines = [
    ...wrap(`Usage: ${helper.commandUsage(command)}`, width, '  '),
    '',
    ...wrap(helper.commandDescription(command), width),
    '',
    ...section(
      'Arguments:',
      helper.visibleArguments(command).map((argument) => [argument.name(), argument.description]),
    ),
    ...groupOptions(command, helper, showAll).flatMap(([title, rows]) => section(title, rows)),
    ...groupCommands(command, helper).flatMap(([title, rows]) => section(title, rows)),
    ...(hiddenCount === 0 || showAll
      ? []
      : [...wrap(`--help-all shows ${hiddenCount} more flags that are rarely needed.`, width), '']),
    ...layOutExamples(examplesOf.get(command) ?? [], width, colors),
  ];
  return `${lines.join('\n')}\n`;
}

function groupOptions(command: Command, helper: Help, showAll: boolean): (readonly [string, Row[]])[] {
  const groups = new Map<string, Row[]>();
  const add = (heading: string, row: Row): void => {
    groups.set(heading, [...(groups.get(heading) ?? []), row]);
  };
  const isHelp = (option: Option): boolean => option.long === '--help';
  const options = helper.visibleOptions(command);
  for (const option of options.filter((each) => !isHelp(each))) {
    if (isRare(option) && !showAll) continue;
    add(option.helpGroupHeading ?? 'Options:', [helper.optionTerm(option), helper.optionDescription(option)]);
  }
  const last = [...groups.keys()].at(-1) ?? 'Options:';
  for (const option of options.filter(isHelp)) add(last, [helper.optionTerm(option), option.description]);
  if (options.some(isRare)) add(last, ['--help-all', 'print this help with all flags']);
  return [...groups];
}

function groupCommands(command: Command, helper: Help): (readonly [string, Row[]])[] {
  const groups = new Map<string, Row[]>();
  for (const each of helper.visibleCommands(command)) {
    const heading = each.helpGroup() || 'Commands:';
    const row: Row = [each.name(), helper.subcommandDescription(each)];
    groups.set(heading, [...(groups.get(heading) ?? []), row]);
  }
  return [...groups];
}

/** Terms on the left; a term that is too long for its column gets a line of its own. */
function layOutRows(rows: readonly Row[], width: number, colors: Colors): string[] {
  const longest = Math.max(...rows.map(([term]) => term.length));
  const column = width < 60 ? 4 : Math.min(longest, Math.floor(width * 0.38)) + 4;
  return rows.flatMap(([term, help]) => {
    const [first = '', ...rest] = wrap(help, width - column);
    const fits = term.length + 4 <= column && width >= 60;
    const indent = ' '.repeat(column);
    const head = fits
      ? [`  ${colors.cyan(term)}${' '.repeat(column - 2 - term.length)}${first}`.trimEnd()]
      : [`  ${colors.cyan(term)}`, ...(first === '' ? [] : [indent + first])];
    return [...head, ...rest.map((line) => indent + line)];
  });
}

function layOutExamples(examples: readonly Example[], width: number, colors: Colors): string[] {
  if (examples.length === 0) return [];
  const column = Math.max(...examples.map(([command]) => command.length)) + 4;
  const longest = Math.max(...examples.map(([, comment]) => comment.length));
  const isOneLine = column + longest <= width;
  const lines = examples.flatMap(([command, comment]) =>
    isOneLine
      ? [`  ${command.padEnd(column - 2)}${colors.dim(comment)}`.trimEnd()]
      : [
          ...(comment === '' ? [] : wrap(`# ${comment}`, width - 2).map((line) => `  ${colors.dim(line)}`)),
          ...wrap(command, width - 6, '    ').map((line, index, all) =>
            index === all.length - 1 ? `  ${line}` : `  ${line} \\`,
          ),
        ],
  );
  return [colors.bold('Examples:'), ...lines, ''];
}

/** Columns on a terminal: colors take none. */
const widthOf = (text: string): number => stripVTControlCharacters(text).length;

/** Breaks between words only; `hanging` indents all lines but the first. Line ends in the text are kept. */
export function wrap(text: string, width: number, hanging = ''): string[] {
  return text.split('\n').flatMap((paragraph) => {
    const lines: string[] = [];
    const words = paragraph.split(' ');
    let line = words.shift()!;
    for (const word of words) {
      const longer = `${line} ${word}`;
      if (line.trim() !== '' && widthOf(longer) > width) {
        lines.push(line);
        line = hanging + word;
      } else line = longer;
    }
    return [...lines, line];
  });
}

/** Wraps ready-made text, such as notes after the flags: continued lines keep their indentation. */
export function wrapText(text: string, columns: number | undefined): string {
  const width = helpWidth(columns);
  return text
    .split('\n')
    .flatMap((line) => (widthOf(line) <= width ? [line] : wrap(line, width, /^ */.exec(line)?.[0] ?? '')))
    .join('\n');
}
