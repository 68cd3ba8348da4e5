/**
 * Settings that users write in flags and config files. Each is declared once, in a table: its type, its placeholder and
 * its help text. Flags, config files, run folders and reports all read that table.
 */
import { parseBytes } from './number-text.js';

/** How a value is read from a flag, checked in a file, and described to the user. */
export interface ValueType<T> {
  /** As in "a whole number from 1 to 64". */
  readonly expected: string;
  /** From the text of a flag; undefined if the text is not valid. */
  read(text: string): T | undefined;
  /** From YAML or JSON; undefined if the value is not valid. */
  check(value: unknown): T | undefined;
  readonly choices?: readonly string[];
  /** The flag may be repeated; files have a list. */
  readonly isList?: true;
}

export interface Setting<T> {
  readonly type: ValueType<T>;
  /** What help shows in place of the value, as in `<count>`; a switch has none. */
  readonly value?: string;
  readonly help: string;
  /** Shown by --help-all only. */
  readonly rare?: boolean;
  /** Long name of the flag, if it differs from the name of the setting. */
  readonly flag?: string;
  readonly short?: string;
  /** Older long or short names, with their dashes, that still work. */
  readonly was?: readonly string[];
  /** Replaces the default value in help. */
  readonly shownDefault?: string;
}

export type SettingTable = Readonly<Record<string, Setting<unknown>>>;

type SettingExtras = Pick<Setting<unknown>, 'flag' | 'short' | 'was' | 'shownDefault'>;

export const setting = <T>(
  type: ValueType<T>,
  value: string,
  help: string,
  extras: SettingExtras = {},
): Setting<T> => ({ type, value, help, ...extras });

/** Shown by --help-all only. */
export const rareSetting = <T>(
  type: ValueType<T>,
  value: string,
  help: string,
  extras: SettingExtras = {},
): Setting<T> => ({ type, value, help, rare: true, ...extras });

export type SettingsOf<Table> = {
  readonly [Name in keyof Table]: Table[Name] extends Setting<infer T> ? T : never;
};

export function integer(min: number, max = Number.MAX_SAFE_INTEGER): ValueType<number> {
  const isOpen = max === Number.MAX_SAFE_INTEGER;
  const check = (value: unknown): number | undefined =>
    typeof value === 'number' && Number.isSafeInteger(value) && value >= min && value <= max
      ? value
      : undefined;
  return {
    expected: `a whole number ${isOpen ? `of ${min} or more` : `from ${min} to ${max}`}`,
    check,
    read: (text) => (/^[+-]?\d+$/.test(text) ? check(Number(text)) : undefined),
  };
}

export interface Range {
  readonly min?: number;
  readonly above?: number;
  readonly max?: number;
}

export function decimal({ min, above, max }: Range = {}): ValueType<number> {
  const check = (value: unknown): number | undefined =>
    typeof value === 'number' &&
    Number.isFinite(value) &&
    value >= (min ?? -Infinity) &&
    value > (above ?? -Infinity) &&
    value <= (max ?? Infinity)
      ? value
      : undefined;
  return {
    expected: describeRange({ min, above, max }),
    check,
    read: (text) => (/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text) ? check(Number(text)) : undefined),
  };
}

function describeRange({ min, above, max }: { [Name in keyof Range]: Range[Name] | undefined }): string {
  if (above !== undefined) return `a number above ${above}${max === undefined ? '' : ` and up to ${max}`}`;
  if (min === undefined) return 'a number';
  return max === undefined ? `a number of ${min} or more` : `a number from ${min} to ${max}`;
}

export function oneOf<const Name extends string>(names: readonly Name[]): ValueType<Name> {
  const check = (value: unknown): Name | undefined => names.find((name) => name === value);
  return { expected: `one of ${names.join(', ')}`, choices: names, check, read: check };
}

const checkText = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined);

/** Text that is further checked by `read`, which returns undefined or throws if it is not valid. */
export function textOf<T>(expected: string, read: (text: string) => T | undefined): ValueType<T> {
  return { expected, read, check: (value) => (typeof value === 'string' ? read(value) : undefined) };
}

export const text: ValueType<string> = { expected: 'text', check: checkText, read: checkText };

export function byteSize(min: number): ValueType<number> {
  const read = (text: string): number | undefined => {
    const bytes = parseBytes(text);
    return bytes !== undefined && bytes >= min ? bytes : undefined;
  };
  return {
    expected: 'a size with its unit, such as 20GB',
    read,
    check: (value) => (typeof value === 'string' ? read(value) : integer(min).check(value)),
  };
}

export const yesNo: ValueType<boolean> = {
  expected: 'true or false',
  choices: ['true', 'false'],
  check: (value) => (typeof value === 'boolean' ? value : undefined),
  read: (text) => (text === 'true' ? true : text === 'false' ? false : undefined),
};

export function listOf<T>(type: ValueType<T>): ValueType<readonly T[]> {
  const checkAll = (values: readonly unknown[]): readonly T[] | undefined => {
    const checked = values.map((value) => type.check(value));
    return checked.length === 0 || checked.includes(undefined) ? undefined : (checked as readonly T[]);
  };
  return {
    expected: type.expected,
    isList: true,
    ...(type.choices === undefined ? {} : { choices: type.choices }),
    check: (value) => checkAll(Array.isArray(value) ? (value as readonly unknown[]) : [value]),
    read: (text) => {
      const one = type.read(text);
      return one === undefined ? undefined : [one];
    },
  };
}

/** Flags accept only `typed`; files and the library accept all of `type`. */
export const stricterFlag = <T>(type: ValueType<T>, typed: ValueType<T>): ValueType<T> => ({
  ...type,
  expected: typed.expected,
  read: (text) => typed.read(text),
});

export const seedType = stricterFlag(integer(Number.MIN_SAFE_INTEGER), integer(0));

/** suffixLength -> suffix-length */
export const toFlagName = (name: string): string =>
  name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);

export function omitSetting<Table extends SettingTable, Name extends keyof Table>(
  table: Table,
  name: Name,
): Omit<Table, Name> {
  return Object.fromEntries(Object.entries(table).filter(([each]) => each !== name)) as unknown as Omit<
    Table,
    Name
  >;
}
