/** Long commands in processes of their own, killed after some of their progress and resumed, again and again. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { createRandom } from '../../src/core/random.js';

export interface Killing {
  /** Called for each line of progress with its number: whether to kill now. */
  readonly when: (line: string, heard: number) => boolean;
  readonly delayMs?: number;
  readonly signal?: 'SIGINT';
}

export interface Ended {
  /** Undefined where the process was killed. */
  readonly code: number | undefined;
  /** Everything on stderr but progress. */
  readonly errors: string;
}

export interface ProcessOptions {
  readonly killing?: Killing | undefined;
  /** A shell command to run first, such as ulimit. */
  readonly limit?: string | undefined;
}

/** `words`: the script and its arguments. */
export async function runProcess(
  words: readonly string[],
  { killing, limit }: ProcessOptions = {},
): Promise<Ended> {
  const own = [...words, '--progress', 'json'];
  const stdio: ['ignore', 'ignore', 'pipe'] = ['ignore', 'ignore', 'pipe'];
  const child =
    limit === undefined
      ? spawn(process.execPath, own, { stdio })
      : spawn('/bin/sh', ['-c', `${limit} && exec "$0" "$@"`, process.execPath, ...own], { stdio });
  let heard = 0;
  let errors = '';
  createInterface({ input: child.stderr }).on('line', (line) => {
    if (!line.startsWith('{')) errors += `${line}\n`;
    else if (killing?.when(line, (heard += 1)) === true)
      setTimeout(() => child.kill(killing.signal ?? 'SIGKILL'), killing.delayMs);
  });
  const [code] = (await once(child, 'close')) as [number | null];
  return { code: code ?? undefined, errors };
}

export interface KilledRuns {
  readonly kills: number;
  /** Lines of progress after which a process is killed, at most: fewer than a whole run has. */
  readonly maxEvents: number;
  readonly freshFolder: () => string;
  readonly start: (folder: string, killing: Killing | undefined) => Promise<Ended>;
  readonly resume: (folder: string, killing: Killing | undefined) => Promise<Ended>;
}

/** Folders of completed runs that were killed at `kills` random moments in total. */
export async function killAndResume(runs: KilledRuns): Promise<readonly string[]> {
  const random = createRandom(7, 'kills');
  const folders: string[] = [];
  let kills = 0;
  while (kills < runs.kills) {
    const folder = runs.freshFolder();
    let go = runs.start;
    for (;;) {
      const [events, delayMs] = [1 + random.nextInteger(runs.maxEvents), random.nextInteger(40)];
      const moment: Killing = { when: (_, heard) => heard === events, delayMs };
      const { code, errors } = await go(folder, kills < runs.kills ? moment : undefined);
      if (errors !== '' || (code ?? 0) !== 0) throw new Error(`It ended with code ${code}: ${errors}`);
      if (code === 0) break;
      kills += 1;
      go = runs.resume;
    }
    folders.push(folder);
  }
  return folders;
}
