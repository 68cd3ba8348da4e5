/** Audits that start at the same moment do not share a run folder. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync } from 'node:fs';
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
