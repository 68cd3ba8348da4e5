/** `npm run test:mutants` takes an hour, so it is run by hand; that its mutations still apply is checked every time. */
import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { expect, it } from 'vitest';
import { mutations } from './mutations.js';

const root = resolve(import.meta.dirname, '../..');

it.each(mutations.map((mutation) => [mutation.name, mutation] as const))(
  'applies: %s',
  (_, { file, search, replace, tests }) => {
    expect(readFileSync(join(root, file), 'utf8').split(search)).toHaveLength(2);
    expect(replace).not.toBe(search);
    expect(tests.filter((test) => !existsSync(join(root, test)))).toEqual([]);
  },
);
