import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { makeTemporaryFolder } from '../support/checkpoint/temporary-folder.js';
import { runKinds } from './run-kinds.js';

const temporary = makeTemporaryFolder();
afterAll(temporary.remove);

/** A worker like worker.ts whose every file is accepted, except for a kind and a seed at which it is killed. */
const worker = join(temporary.path, 'worker.mjs');
writeFileSync(
  worker,
  `import { writeFileSync } from 'node:fs';
   const [folder, ...plans] = process.argv.slice(2);
   for (const plan of plans) {
     const [kind, first, count] = plan.split(':');
     for (let seed = +first; seed < +first + +count; seed++) {
       writeFileSync(folder + '/place', kind + ' ' + seed);
       if (kind === 'bad' && seed % 3 === 0) process.kill(process.pid, 'SIGKILL');
     }
     const counts = { files: +count, accepted: +count, refused: 0, slowestCpuMs: 0, slowestSeed: +first };
     console.log(JSON.stringify({ kind, counts }));
   }`,
);

it('continues after a file at which the process ends', async () => {
  const plans = ['good', 'bad', 'other'].map((kind) => ({ kind, first: 1, count: 4 }));
  const runs = await runKinds(worker, plans);
  expect([...runs].map(([kind, { files, faults }]) => [kind, files, faults.map(({ seed }) => seed)])).toEqual(
    [
      ['good', 4, []],
      ['bad', 4, [3]],
      ['other', 4, []],
    ],
  );
  expect(runs.get('bad')!.faults[0]!.what).toContain('the process ended with SIGKILL');
});

it('stops at five faults of a kind, and tries the next kind', async () => {
  const plans = [{ kind: 'bad', first: 1, count: 900 }, { kind: 'good', first: 1, count: 2 }]; // prettier-ignore
  const runs = await runKinds(worker, plans);
  expect(runs.get('bad')!.faults.map(({ seed }) => seed)).toEqual([3, 6, 9, 12, 15]);
  expect(runs.get('good')!.files).toBe(2);
});
