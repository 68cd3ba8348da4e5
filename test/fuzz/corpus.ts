import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { CommandRun } from './command-run.js';
import { runCommand } from './command-run.js';
import { bombCases } from './corpus/bombs.js';
import type { MaliciousCase } from './corpus/case.js';
import { checkpointCases } from './corpus/checkpoints.js';
import { messageCases } from './corpus/messages.js';
import { placeCases } from './corpus/places.js';
import { smallCases } from './corpus/small-files.js';
import { textCases } from './corpus/texts.js';
import { trainingCases } from './corpus/training.js';

/** Every attack that was tried against the program, as files that are made when they are needed. */
export const maliciousCases = [
  ...checkpointCases,
  ...textCases,
  ...smallCases,
  ...bombCases,
  ...placeCases,
  ...trainingCases,
  ...messageCases,
];

/** Cases of one sort are listed together, so every third one represents them all; the places are each a sort of their own. */
export const representativeCases = [
  ...[checkpointCases, textCases, smallCases, bombCases, trainingCases, messageCases].flatMap((cases) =>
    cases.filter((_, index) => index % 3 === 0),
  ),
  ...placeCases,
];

/** The command line on each of them, two at a time; by name. `main` is the program's compiled entry. */
export async function runCorpus(
  main: string,
  cases: readonly MaliciousCase[] = maliciousCases,
): Promise<ReadonlyMap<string, CommandRun>> {
  const folder = mkdtempSync(join(tmpdir(), 'mistletoe-corpus-'));
  const runs = new Map<string, CommandRun>();
  const left = [...cases.entries()];
  const workOff = async (): Promise<void> => {
    for (let next = left.shift(); next !== undefined; next = left.shift()) {
      const [index, malicious] = next;
      const place = join(folder, String(index));
      mkdirSync(place);
      runs.set(malicious.name, await runCommand(main, malicious.write(place), place));
    }
  };
  try {
    await Promise.all([workOff(), workOff()]);
    return runs;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
