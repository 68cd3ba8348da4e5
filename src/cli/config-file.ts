/** --config and --show-config: the flags of a command as YAML. */
import { parseDocument, stringify } from 'yaml';
import { readBoundedFile } from '../core/files.js';
import { MistletoeError } from '../core/errors.js';
import { toFlagName } from '../core/settings.js';
import { findNearMiss } from './failure.js';
import type { FlagTable } from './flags.js';
import { longName } from './flags.js';

const maxFileBytes = 1 << 20;

/** By the names of the table. Keys are flag names without dashes in front; camelCase works too. */
export async function readConfig(file: string, table: FlagTable): Promise<Map<string, unknown>> {
  const document = parseDocument((await readBoundedFile(file, maxFileBytes)).toString(), { version: '1.2' });
  const [error] = document.errors;
  if (error !== undefined) {
    const [line = ''] = error.message.split('\n');
    throw new MistletoeError('usage', `${file} is not valid YAML: ${line}`, { hint: 'Fix that line.' });
  }
  const contents: unknown = document.toJS({ maxAliasCount: 100 });
  if (contents === null || contents === undefined) return new Map();
  if (typeof contents !== 'object' || Array.isArray(contents)) {
    throw new MistletoeError('usage', `${file} has no settings; lines such as "steps: 200" were expected.`, {
      hint: 'Write one setting a line; --show-config prints all of them.',
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
  const near = findNearMiss(toFlagName(key), names);
  return new MistletoeError('usage', `${file} has an unknown setting: ${key}.`, {
    hint:
      near === undefined
        ? 'The names are those of --help-all, without dashes in front.'
        : `Did you mean ${near}?`,
  });
}

/** YAML that --config accepts. */
export function formatConfig(table: FlagTable, values: Readonly<Record<string, unknown>>): string {
  const entries = Object.entries(table).flatMap(([name, entry]) => {
    const value = values[name];
    const isEmpty = value === undefined || (Array.isArray(value) && value.length === 0);
    return isEmpty ? [] : [[longName(name, entry), value]];
  });
  return stringify(Object.fromEntries(entries));
}
