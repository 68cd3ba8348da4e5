/** A command: its flag table, its help, and what it runs. */
import type { Command } from 'commander';
import { MistletoeError } from '../core/errors.js';
import { quoteWord } from '../core/display-paths.js';
import { formatConfig, readConfig } from './config-file.js';
import type { Flag, FlagsOf, FlagTable } from './flags.js';
import { addFlags, flag, longName, parseFlags, toggle } from './flags.js';
import { text } from '../core/settings.js';
import type { Example } from './help.js';
import { addExamples } from './help.js';
import { createNotice } from './terminal.js';
import type { Terminal } from './terminal.js';

export interface CommandContext {
  readonly terminal: Terminal;
  exitCode: number;
}

export interface Invocation {
  readonly terminal: Terminal;
  /** Positional arguments. */
  readonly args: readonly string[];
  /** Names of the flags that were typed or are in the config file. */
  readonly given: ReadonlySet<string>;
  /** Flags that were given, as one would type them, except `ignored` ones. */
  readonly commandLine: (
    ignored: readonly string[],
    show?: Readonly<Record<string, (value: string) => string>>,
  ) => string;
  /** Throws if a flag was given that is not among `allowed`. */
  readonly allowOnly: (allowed: readonly string[], explain: (flag: string) => MistletoeError) => void;
}

export interface CommandDefinition<Table extends FlagTable = FlagTable> {
  readonly name: string;
  readonly description: string;
  readonly arguments?: readonly (readonly [term: string, help: string])[];
  readonly flags: Table;
  readonly examples: readonly Example[];
  /** After the examples: exit codes, files. */
  readonly notes?: string;
  /** Adds --config and --show-config; returns every setting in effect, by the names of the table. */
  readonly complete?: (flags: FlagsOf<Table>) => Readonly<Record<string, unknown>>;
  run(flags: FlagsOf<Table>, invocation: Invocation): Promise<number>;
}

const configFlags = {
  config: flag('YAML file with any of these flags, as `steps: 200`; flags win', text, 'file', { short: 'c' }),
  showConfig: toggle('print the settings in effect as YAML, and stop'),
};

export const defineCommand = <Table extends FlagTable>(
  definition: CommandDefinition<Table>,
): CommandDefinition<Table> => definition;

export function setUpCommand<Table extends FlagTable>(
  command: Command,
  definition: CommandDefinition<Table>,
  context: CommandContext,
): void {
  const { terminal } = context;
  const table: FlagTable = definition.flags;
  const groups = [...new Set(Object.values(table).map((entry) => entry.group))];
  const runGroup = groups.find((heading) => heading === 'Run') ?? groups.at(-1);
  const all: FlagTable =
    definition.complete === undefined
      ? table
      : {
          ...table,
          config: { ...configFlags.config, ...(runGroup === undefined ? {} : { group: runGroup }) },
          showConfig: {
            ...configFlags.showConfig,
            rare: true,
            ...(runGroup === undefined ? {} : { group: runGroup }),
          },
        };
  command.description(definition.description).helpOption('-h, --help', 'print this help');
  for (const [term, help] of definition.arguments ?? []) command.argument(term, help);
  addFlags(command, all);
  addExamples(command, definition.examples);
  if (definition.notes !== undefined) command.addHelpText('after', definition.notes);
  command.action(async () => {
    const { values, notes } = parseFlags(command, all);
    const notice = createNotice(terminal);
    notes.forEach(notice);
    const file = values.get('config') as string | undefined;
    const fromFile = file === undefined ? new Map<string, unknown>() : await readConfig(file, table);
    const given = new Map([...fromFile, ...values]);
    refuseConflicts(table, given);
    const flags = Object.fromEntries(
      Object.entries(table).map(([name, entry]) => [name, given.has(name) ? given.get(name) : entry.default]),
    ) as FlagsOf<Table>;
    if (values.get('showConfig') === true) {
      terminal.stdout.write(formatConfig(table, definition.complete?.(flags) ?? {}));
      return;
    }
    context.exitCode = await definition.run(flags, {
      terminal,
      args: command.args,
      given: new Set([...given.keys()].filter((name) => name !== 'config')),
      commandLine: (ignored, show = {}) =>
        ['mistletoe', definition.name, ...listWords(table, given, ignored, show)].join(' '),
      allowOnly(allowed, explain) {
        const other = [...given.keys()].find((name) => !allowed.includes(name));
        if (other !== undefined) throw explain(`--${nameOf(all, other)}`);
      },
    });
  });
}

const nameOf = (table: FlagTable, name: string): string => longName(name, table[name]!);

function refuseConflicts(table: FlagTable, given: ReadonlyMap<string, unknown>): void {
  for (const [name, { conflicts }] of Object.entries(table)) {
    if (conflicts === undefined || !given.has(name) || !given.has(conflicts)) continue;
    const pair = [name, conflicts].map((each) => `--${nameOf(table, each)}`);
    throw new MistletoeError('usage', `${pair[0]!} and ${pair[1]!} were both given; one was expected.`, {
      hint: 'Leave one of them out.',
    });
  }
}

function listWords(
  table: FlagTable,
  given: ReadonlyMap<string, unknown>,
  ignored: readonly string[],
  show: Readonly<Record<string, (value: string) => string>>,
): string[] {
  return Object.entries(table).flatMap(([name, entry]: [string, Flag]) => {
    if (!given.has(name) || ignored.includes(name)) return [];
    const word = `--${longName(name, entry)}`;
    const value = given.get(name);
    if (entry.value === undefined) return value === true ? [word] : [];
    const one = show[name] ?? ((text) => text);
    return (Array.isArray(value) ? (value as readonly unknown[]) : [value]).flatMap((each) => [
      word,
      quoteWord(one(String(each))),
    ]);
  });
}
