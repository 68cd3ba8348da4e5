/**
 * The environment of every test process. Tests run on the CPU unless the environment names another device, because the
 * expected values come from there. All temporary folders of a run are in one folder, because hooks that remove folders do
 * not always run: a filter skips them, and a worker that is killed has no time for them. The transpiled sources are below
 * the repository's `out`, where Node finds packages (transpiled-sources.ts fills that folder).
 */
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

const out = resolve(import.meta.dirname, '../../out');
/** A hang guard: how long processes of the tests have to end after the workers that started them. */
const maxWaitMs = 60_000;
/** Exit codes from here on are those of a process that a signal ended. */
const firstSignalCode = 128;

export default function prepareEnvironment(): void {
  // The runner calls this once for the root and once per project, all in one process.
  const run = String(process.pid);
  if (process.env.MISTLETOE_TEST_RUN === run) return;
  process.env.MISTLETOE_TEST_RUN = run;
  process.env.MISTLETOE_DEVICE ??= 'cpu';
  const home = mkdtempSync(join(tmpdir(), 'mistletoe-tests-'));
  chmodSync(home, 0o711); // for processes of other users, which some tests start
  Object.assign(process.env, { TMPDIR: home, TEMP: home, TMP: home }); // workers and their children inherit them
  mkdirSync(out, { recursive: true });
  const builds = mkdtempSync(join(out, 'tests-'));
  process.env.MISTLETOE_TEST_BUILDS = builds;
  // Not in the runner's teardown, which comes before its workers end. After Ctrl-C they may still be busy.
  process.once('exit', (code) => {
    if (code < firstSignalCode) checkLeftProcesses(home);
    for (const pid of findProcesses(home)) process.kill(pid, 'SIGKILL');
    for (const folder of [home, builds]) rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
  });
}

/** Fails the run where a process outlives it. */
function checkLeftProcesses(home: string): void {
  const pause = new Int32Array(new SharedArrayBuffer(4));
  for (let waitedMs = 0; findProcesses(home).length > 0 && waitedMs < maxWaitMs; waitedMs += 50)
    Atomics.wait(pause, 0, 0, 50);
  for (const pid of findProcesses(home)) {
    const command = readProcess(pid, 'cmdline').replaceAll('\0', ' ');
    console.error(`The tests left process ${pid} running: ${command}`);
    process.exitCode = 1;
  }
}

/** Processes that inherited this run's temporary folder or run in it; none where the system has no /proc. */
function findProcesses(home: string): number[] {
  try {
    const pids = readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name))
      .map(Number);
    return pids.filter(
      // redis-server writes its title over its environment.
      (pid) =>
        readProcess(pid, 'environ').includes(`TMPDIR=${home}\0`) || readWorkingFolder(pid).startsWith(home),
    );
  } catch {
    return [];
  }
}

function readWorkingFolder(pid: number): string {
  try {
    return readlinkSync(`/proc/${pid}/cwd`);
  } catch {
    return '';
  }
}

function readProcess(pid: number, file: 'cmdline' | 'environ'): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8');
  } catch {
    return ''; // it has ended, or belongs to another user
  }
}
