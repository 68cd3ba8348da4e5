/** A command: its flag table, its help, and what it runs. */
import { type Command, Option } from 'commander';
import { stringify } from 'yaml';
import { findNearNames } from '../checkpoint/stored-tensor.js';
import { quoteWord } from '../core/files.js';
import { MistletoeError } from '../core/errors.js';
import { bundledTarget } from '../core/package-files.js';
import { text, toFlagName } from '../core/settings.js';
import { parseYaml, readSettingsFile } from '../core/yaml-text.js';
import type { Flag, FlagTable, FlagsOf } from './flags.js';
import { addFlags, flag, group, longName, parseFlags, toggle } from './flags.js';
import { type Example, setHelpEnd } from './help.js';
import { type Terminal, createNotice } from './terminal.js';

export interface CommandContext {
  readonly terminal: Terminal;
  exitCode: number;
}

export interface Invocation {
  readonly terminal: Terminal;
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
  readonly printHelp: () => void;
}

export interface CommandDefinition<Table extends FlagTable = FlagTable> {
  readonly name: string;
  /** Of a command below another one, in the list of its parent's help. */
  readonly summary?: string;
  readonly description: string;
  readonly arguments?: readonly (readonly [term: string, help: string])[];
  readonly flags: Table;
  readonly examples: readonly Example[];
  /** After the examples: exit codes, files. */
  readonly notes?: string;
  /** Adds --config and --show-config; returns every setting in effect, by the names of the table. */
  complete?(flags: FlagsOf<Table>): Readonly<Record<string, unknown>>;
  readonly commands?: readonly CommandDefinition[];
  run(flags: FlagsOf<Table>, invocation: Invocation): Promise<number>;
}

const configFlags = {
  config: flag('YAML file with any of these flags, as `steps: 200`; flags win', text, 'file', { short: 'c' }),
  showConfig: toggle('print the settings in effect as YAML, and stop', { rare: true }),
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
  const headings = Object.values(table).map((entry) => entry.group);
  const heading = headings.find((each) => each === 'Run') ?? headings.at(-1) ?? 'Options';
  const all = definition.complete === undefined ? table : { ...table, ...group(heading, configFlags) };
  command.description(definition.description);
  command.addHelpOption(new Option('-h, --help', 'print this help').helpGroup(`${heading}:`));
  for (const [term, help] of definition.arguments ?? []) command.argument(term, help);
  addFlags(command, all);
  setHelpEnd(command, definition);
  // Flags after the name of a command below belong to that command.
  if (definition.commands !== undefined) command.enablePositionalOptions();
  for (const inner of definition.commands ?? [])
    setUpCommand(command.command(inner.name).summary(inner.summary ?? ''), inner, context);
  command.action(async () => {
    const { values, notes } = parseFlags(command, all);
    const notice = createNotice(terminal);
    notes.forEach(notice);
    const isOwn = definition.complete !== undefined; // `guard` has a config file of its own
    const file = isOwn ? (values.get('config') as string | undefined) : undefined;
    const fromFile = file === undefined ? new Map<string, unknown>() : await readConfig(file, table);
    const given = new Map([...fromFile, ...values]);
    refuseConflicts(table, given);
    const flags = Object.fromEntries(
      Object.entries(table).map(([name, entry]) => [name, given.has(name) ? given.get(name) : entry.default]),
    ) as FlagsOf<Table>;
    if (isOwn && values.get('showConfig') === true) {
      terminal.stdout.write(formatConfig(table, definition.complete?.(flags) ?? {}));
      return;
    }
    context.exitCode = await definition.run(flags, {
      terminal,
      args: command.args,
      given: new Set([...given.keys()].filter((name) => !isOwn || name !== 'config')),
      commandLine: (ignored, show = {}) =>
        ['mistletoe', definition.name, ...listWords(table, given, ignored, show)].join(' '),
      allowOnly(allowed, explain) {
        const other = [...given.keys()].find((name) => !allowed.includes(name));
        if (other !== undefined) throw explain(`--${nameOf(all, other)}`);
      },
      printHelp() {
        command.outputHelp();
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

/** --config and --show-config: the flags of a command as YAML. */
/** By the names of the table. Keys are flag names without dashes in front; camelCase works too. */
export async function readConfig(file: string, table: FlagTable): Promise<Map<string, unknown>> {
  const hint = 'Write one setting a line; --show-config prints all of them.';
  const { contents } = parseYaml(await readSettingsFile(file), file, hint);
  if (contents === null || contents === undefined) return new Map();
  if (typeof contents !== 'object' || Array.isArray(contents)) {
    throw new MistletoeError('usage', `${file} has no settings; lines such as "steps: 200" were expected.`, {
      hint,
    });
  }
  const names = new Map(Object.entries(table).map(([name, entry]) => [longName(name, entry), name]));
  return new Map(
    Object.entries(contents).map(([key, value]: [string, unknown]) => {
      const long = toFlagName(key).replaceAll('_', '-');
      const name = names.get(long) ?? (Object.hasOwn(table, key) ? key : undefined);
      if (name === undefined) throw refuseKey(file, key, [...names.keys()]);
      const { type } = table[name]!;
      const checked = type.check(value);
      if (checked !== undefined) return [name, checked];
      throw new MistletoeError(
        'usage',
        `In ${file}, ${key} is ${JSON.stringify(value)}; ${type.expected} was expected.`,
        { hint: `It means the same as --${long}; --help-all explains it.` },
      );
    }),
  );
}

function refuseKey(file: string, key: string, names: readonly string[]): MistletoeError {
  const [near] = findNearNames(toFlagName(key), names);
  return new MistletoeError('usage', `${file} has an unknown setting: ${key}.`, {
    hint: near === undefined ? '--help-all shows the names, with dashes in front.' : `Did you mean ${near}?`,
  });
}

export function formatConfig(table: FlagTable, values: Readonly<Record<string, unknown>>): string {
  const entries = Object.entries(table).flatMap(([name, entry]) => {
    const value = values[name];
    const isEmpty =
      value === undefined || value === bundledTarget || (Array.isArray(value) && value.length === 0);
    return isEmpty ? [] : [[longName(name, entry), value]];
  });
  return stringify(Object.fromEntries(entries));
}
