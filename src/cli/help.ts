/** Help as Commander lays it out, with rare flags only on request, and examples and notes at the end. */
import { type Command, Help, type HelpConfiguration, Option } from 'commander';
import { isRare } from './flags.js';
import type { Colors } from './terminal.js';

export type Example = readonly [command: string, comment: string];

interface HelpEnd {
  readonly examples: readonly Example[];
  readonly notes?: string | undefined;
}

const endOf = new WeakMap<Command, HelpEnd>();

/** What follows the flags in the help of a command. */
export function setHelpEnd(command: Command, end: HelpEnd): void {
  endOf.set(command, end);
}

const minWidth = 40;
const maxWidth = 200;
const defaultWidth = 100;

export const helpWidth = (columns: number | undefined): number =>
  Math.min(maxWidth, Math.max(minWidth, columns ?? defaultWidth));

export function configureHelp(colors: Colors, showAll: boolean): HelpConfiguration {
  return {
    minWidthToWrap: 1,
    styleTitle: colors.bold,
    styleArgumentTerm: colors.cyan,
    styleOptionTerm: colors.cyan,
    styleSubcommandTerm: colors.cyan,
    subcommandTerm: (command) => command.name(),
    visibleOptions(command) {
      const options = new Help().visibleOptions(command);
      const hiddenCount = options.filter(isRare).length;
      if (hiddenCount === 0) return options;
      const text = showAll ? 'print all flags' : `print ${hiddenCount} more flags that are rarely needed`;
      const all = new Option('--help-all', text);
      all.helpGroup(options.at(-1)?.helpGroupHeading ?? 'Options:'); // that of --help
      return [...options.filter((option) => showAll || !isRare(option)), all];
    },
    formatItem(term, termWidth, help, helper) {
      const width = helper.helpWidth ?? defaultWidth;
      const column = Math.min(termWidth, Math.floor(0.38 * width));
      const lines = helper.boxWrap(help, width - column - 4).split('\n');
      // A term that is too long for its column has a line of its own.
      if (helper.displayWidth(term) > column) lines.unshift('');
      const padding = ' '.repeat(Math.max(0, column - helper.displayWidth(term)));
      const first = `  ${term}${padding}  ${lines.shift()!}`;
      return [first.trimEnd(), ...lines.map((line) => ' '.repeat(column + 4) + line)].join('\n');
    },
    formatHelp(command, helper) {
      const width = helper.helpWidth ?? defaultWidth;
      const { examples = [], notes = '' } = endOf.get(command) ?? {};
      const lines = examples.flatMap(([line, comment]) => {
        const shown = `  ${helper.boxWrap(line, width - 6).replaceAll('\n', ' \\\n    ')}`;
        const above = helper.boxWrap(comment, width - 4).replaceAll('\n', '\n  # ');
        return comment === '' ? [shown] : [colors.dim(`  # ${above}`), shown];
      });
      const text = helper.boxWrap(Help.prototype.formatHelp.call(helper, command, helper), width);
      const end = notes === '' ? [] : [helper.boxWrap(notes, width), ''];
      return [text, colors.bold('Examples:'), ...lines, '', ...end].join('\n');
    },
  };
}

/** Breaks between words only. */
export const wrap = (text: string, width: number): string[] =>
  Object.assign(new Help(), { minWidthToWrap: 1 }).boxWrap(text, width).split('\n');
