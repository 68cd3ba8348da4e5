/**
 * What every test process finds around it: the CPU, whose answers are known, also on machines with a GPU, unless the
 * environment names another device; one folder for all temporary folders of a run, because hooks that would remove them do
 * not always run: tests that a filter skips skip theirs, and a worker that is ended has no time for them; and one for the
 * sources as JavaScript, below the repository's `out`, where packages are found (transpiled-sources.ts fills it).
 */
import { chmodSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

const out = resolve(import.meta.dirname, '../../out');

export default function prepareEnvironment(): () => void {
  process.env.MISTLETOE_DEVICE ??= 'cpu';
  const home = mkdtempSync(join(tmpdir(), 'mistletoe-tests-'));
  chmodSync(home, 0o711); // for processes of other users, which some tests start
  Object.assign(process.env, { TMPDIR: home, TEMP: home, TMP: home }); // workers and their children inherit them
  mkdirSync(out, { recursive: true });
  const builds = mkdtempSync(join(out, 'tests-'));
  process.env.MISTLETOE_TEST_BUILDS = builds;
  return () => {
    for (const folder of [home, builds]) rmSync(folder, { recursive: true, force: true });
  };
}
