/**
 * What every test process finds around it: the CPU, whose answers are known, also on machines with a GPU, unless the
 * environment names another device; and one folder for all temporary folders of a run, because hooks that would remove them do not always run: tests that a
 * filter skips skip theirs, and a worker that is ended has no time for them.
 */
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export default function prepareEnvironment(): () => void {
  process.env.MISTLETOE_DEVICE ??= 'cpu';
  const home = mkdtempSync(join(tmpdir(), 'mistletoe-tests-'));
  chmodSync(home, 0o711); // for processes of other users, which some tests start
  Object.assign(process.env, { TMPDIR: home, TEMP: home, TMP: home }); // workers and their children inherit them
  return () => {
    rmSync(home, { recursive: true, force: true });
  };
}
