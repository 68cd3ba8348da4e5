/** Run folders of several drafters, and of several audits at once. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { FaultCommands } from './fault-commands.js';

const commands = new FaultCommands();

it('audits at the same moment without --out have a folder each', async () => {
  const cwd = commands.audits.freshFolder();
  mkdirSync(cwd);
  const codes = await Promise.all(
    [1, 2, 3].map(async () => {
      const argv = [commands.main, ...commands.audit()];
      const child = spawn(process.execPath, argv, { cwd, stdio: 'ignore' });
      return ((await once(child, 'close')) as [number | null])[0];
    }),
  );
  expect(codes).toEqual([0, 0, 0]);
  const runs = readdirSync(join(cwd, 'runs'));
  expect(runs).toHaveLength(3);
  for (const name of runs)
    expect((await commands.runHere(['audit', '--verify', join(cwd, 'runs', name)])).code).toBe(0);
});

it('audit --verify checks the units of a transfer', async () => {
  const out = commands.audits.freshFolder();
  const other = commands.audits.writeDrafter('draft model');
  const { code } = await commands.runHere(commands.audit('--drafter', other, '--transfer', '--out', out));
  expect(code).toBe(0);
  expect((await commands.runHere(['audit', '--verify', out])).code).toBe(0);
  const path = join(out, 'units.jsonl');
  const lines = readFileSync(path, 'utf8').trimEnd().split('\n');
  expect(lines.at(-1)).toContain('transfer');
  writeFileSync(path, lines.slice(0, -1).join('\n').concat('\n'));
  const { code: refused, err } = await commands.runHere(['audit', '--verify', out]);
  expect(err).toMatch(/has no unit transfer|does not follow from the units/);
  expect(refused).toBe(2);
});
