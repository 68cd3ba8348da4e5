/** Training runs in processes of their own that are killed again and again, and must end as if nothing had happened. */
import { afterAll, expect, it } from 'vitest';
import { killAndResume } from '../support/killed-runs.js';
import { byTier } from '../support/tier.js';
import { readRun, TrainingProcesses } from './training-processes.js';

const runs = new TrainingProcesses();
afterAll(() => runs.dispose());
const kills = byTier({ quick: 3, full: 8 });

it(`kill -9 at ${kills} random moments leaves no trace`, async () => {
  const expected = await runs.trainHere((folder) => runs.startWords(folder));
  const folders = await killAndResume({
    ...{ kills, maxEvents: 10, freshFolder: () => runs.freshFolder() },
    start: (folder, killing) => runs.train(runs.startWords(folder), { killing }),
    resume: (folder, killing) => runs.train(['--resume', folder], { killing }),
  });
  for (const folder of folders) expect(readRun(folder)).toEqual(expected);
});
