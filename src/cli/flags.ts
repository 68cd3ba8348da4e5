/** The flag table of a command: declared once, read by parsing, help, config files and the command itself. */
import { type Command, InvalidArgumentError, Option } from 'commander';
import type { Setting, SettingTable, ValueType } from '../core/settings.js';
import { listOf, toFlagName, yesNo } from '../core/settings.js';

/** `Result` is what the command gets: undefined unless the flag is given or has a default. */
export interface Flag<Result = unknown> extends Setting<unknown> {
  readonly group?: string;
  readonly default?: Result;
  /** Also accepts several words after one flag, for compatibility. */
  readonly variadic?: boolean;
  /** Another flag of the table that cannot be combined with this one. */
  readonly conflicts?: string;
}

export type FlagTable = Readonly<Record<string, Flag>>;

export type FlagsOf<Table> = {
  readonly [Name in keyof Table]: Table[Name] extends Flag<infer Result> ? Result : never;
};

/** Values that may be missing, as the commands get them. */
export type Given<Values> = { readonly [Name in keyof Values]?: Values[Name] | undefined };

/** The values of a table's names that were given. */
export function pickGiven<Name extends string, Values extends Readonly<Partial<Record<Name, unknown>>>>(
  table: Readonly<Record<Name, unknown>>,
  flags: Values,
): { [Key in Name]?: Exclude<Values[Key], undefined> } {
  const names = Object.keys(table) as Name[];
  const given = names.filter((name) => flags[name] !== undefined).map((name) => [name, flags[name]]);
  return Object.fromEntries(given) as { [Key in Name]?: Exclude<Values[Key], undefined> };
}

type Extras = Partial<
  Pick<Flag, 'rare' | 'flag' | 'short' | 'was' | 'shownDefault' | 'conflicts' | 'variadic'>
>;

export function flag<T>(
  help: string,
  type: ValueType<T>,
  value: string,
  extras: Extras & { readonly default: NoInfer<T> },
): Flag<T>;
export function flag<T>(
  help: string,
  type: ValueType<T>,
  value: string,
  extras?: Extras,
): Flag<T | undefined>;
export function flag<T>(
  help: string,
  type: ValueType<T>,
  value: string,
  extras: Extras & { readonly default?: NoInfer<T> } = {},
): Flag<T | undefined> {
  return { help, type, value, ...extras };
}

/** A flag that may be repeated; the list is empty if it is not given. */
export function list<T>(
  help: string,
  type: ValueType<T>,
  value: string,
  extras: Extras = {},
): Flag<readonly T[]> {
  return { help, type: listOf(type), value, default: [], shownDefault: '', ...extras };
}

export function toggle(help: string, extras: Extras = {}): Flag<true | undefined> {
  return { help, type: yesNo, ...extras };
}

/** Puts flags under one heading of the help. */
export function group<Table extends FlagTable>(heading: string, table: Table): Table {
  const entries = Object.entries(table).map(([name, entry]) => [name, { ...entry, group: heading }]);
  return Object.fromEntries(entries) as Table;
}

/** Settings as flags without defaults of their own; `describeDefault` is what help shows in brackets. */
export function settingFlags<Table extends SettingTable>(
  table: Table,
  describeDefault: (name: keyof Table & string) => string,
): { readonly [Name in keyof Table]: Table[Name] extends Setting<infer T> ? Flag<T | undefined> : never } {
  const entries = Object.entries(table).map(([name, setting]) => {
    const shown = setting.shownDefault ?? describeDefault(name);
    return [name, { ...setting, help: `${setting.help} [${shown}]`, shownDefault: '' }];
  });
  return Object.fromEntries(entries) as ReturnType<typeof settingFlags<Table>>;
}

export const longName = (name: string, entry: Flag): string => entry.flag ?? toFlagName(name);

const rareOptions = new WeakSet<Option>();
export const isRare = (option: Option): boolean => rareOptions.has(option);

const attributeOf = (long: string): string =>
  long.replace(/-(.)/g, (_, letter: string) => letter.toUpperCase());

export function addFlags(command: Command, table: FlagTable): Command {
  for (const [name, entry] of Object.entries(table)) {
    const long = longName(name, entry);
    const value = entry.value === undefined ? '' : ` <${entry.value}${entry.variadic === true ? '...' : ''}>`;
    const short = entry.short === undefined ? '' : `-${entry.short}, `;
    const option = new Option(`${short}--${long}${value}`, describe(entry));
    option.helpGroup(`${entry.group ?? 'Options'}:`);
    if (entry.rare === true) rareOptions.add(option);
    command.addOption(withParser(option, entry));
    for (const old of entry.was ?? []) {
      // Lists under old names also accepted several words after one flag.
      const words = entry.type.isList === true ? value.replace('>', '...>') : value;
      command.addOption(withParser(new Option(`${old}${words}`).hideHelp(), entry));
    }
  }
  return command;
}

function describe({ help, type, default: value, shownDefault }: Flag): string {
  const choices = type.choices === undefined || type === yesNo ? '' : ` (${type.choices.join(', ')})`;
  const shown =
    shownDefault ?? (value === undefined ? '' : typeof value === 'string' ? value : JSON.stringify(value));
  const repeated = type.isList === true && !help.includes('repeat') ? '; repeat for several' : '';
  return `${help}${choices}${repeated}${shown === '' ? '' : ` (default: ${shown})`}`;
}

function withParser(option: Option, { type, value }: Flag): Option {
  if (value === undefined) return option;
  return option.argParser((given: string, earlier: unknown) => {
    const read = type.read(given) ?? (type.isList === true ? readCommaList(type, given) : undefined);
    if (read === undefined) throw new InvalidArgumentError(`Expected ${type.expected}.`);
    if (type.isList !== true) return read;
    return [...((earlier as readonly unknown[] | undefined) ?? []), ...(read as readonly unknown[])];
  });
}

/** `a,b` was the syntax of some lists, and still works where no single value can contain a comma. */
function readCommaList(type: ValueType<unknown>, given: string): unknown {
  const parts = given.split(',').map((part) => type.read(part.trim()));
  return parts.length < 2 || parts.includes(undefined) ? undefined : parts.flat();
}

/** What was typed, by the names of the table, and notes about older names that were used. */
export function parseFlags(command: Command, table: FlagTable) {
  const values = new Map<string, unknown>();
  const notes: string[] = [];
  const read = (name: string, attribute: string): boolean => {
    if (command.getOptionValueSource(attribute) !== 'cli') return false;
    values.set(name, command.getOptionValue(attribute));
    return true;
  };
  for (const [name, entry] of Object.entries(table)) {
    const long = longName(name, entry);
    for (const old of entry.was ?? []) {
      const attribute = new Option(old).attributeName();
      if (read(name, attribute)) notes.push(`${old} is now --${long}; the old name still works.`);
    }
    // Commander stores `--no-x` as `x: false`.
    if (!long.startsWith('no-')) read(name, attributeOf(long));
    else if (read(name, attributeOf(long.slice(3)))) values.set(name, true);
  }
  return { values, notes };
}
