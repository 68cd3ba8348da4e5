import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { expect, it } from 'vitest';

const source = resolve(import.meta.dirname, '../..');

it.each(['bullmq'])('%s is loaded only where it is used, not when a command starts', (name) => {
  const files = readdirSync(source, { recursive: true, encoding: 'utf8' }).filter(
    (path) => path.endsWith('.ts') && !path.endsWith('.test.ts'),
  );
  const importing = files.filter((path) => readFileSync(join(source, path), 'utf8').includes(`'${name}'`));
  expect(importing.length).toBeGreaterThan(0);
  const eager = new RegExp(`^import (?!type ).*'${name}'`, 'm');
  expect(importing.filter((path) => eager.test(readFileSync(join(source, path), 'utf8')))).toEqual([]);
});
