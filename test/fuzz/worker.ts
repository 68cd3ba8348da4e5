/**
 * One process of attempts: `node worker.js KIND FIRST COUNT FOLDER`. Which seed is being tried stands in FOLDER/seed before
 * the attempt begins, so that whoever ends this process, or sees it end, knows the file. Faults are written as lines of JSON,
 * and last the counts.
 */
import { mkdirSync, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { mostBytes, tryFile } from './kind.js';
import { fuzzKinds } from './kinds.js';

const [name, first, count, folder] = process.argv.slice(2);
const kind = fuzzKinds.find((each) => each.name === name);
if (kind === undefined || folder === undefined) throw new Error(`There is no kind ${name ?? ''}.`);

const progress = openSync(join(folder, 'seed'), 'w');
const workplace = join(folder, 'files');
mkdirSync(workplace, { recursive: true });
const attempt = await kind.open(workplace);
const counts = { files: 0, accepted: 0, refused: 0, slowestMs: 0, slowestSeed: 0 };
for (let seed = Number(first); seed < Number(first) + Number(count); seed++) {
  writeSync(progress, String(seed).padEnd(16), 0);
  const outcome = await tryFile(attempt, seed);
  counts.files++;
  if ('fault' in outcome) {
    report({ seed, what: outcome.fault });
    continue;
  }
  if (outcome.accepted) counts.accepted++;
  else counts.refused++;
  if (outcome.ms > counts.slowestMs) Object.assign(counts, { slowestMs: outcome.ms, slowestSeed: seed });
  const resident = process.memoryUsage.rss();
  if (resident > mostBytes) report({ seed, what: `it holds ${Math.round(resident / 2 ** 20)} MiB` });
}
report({ counts });
process.exit();

function report(line: object): void {
  writeSync(1, `${JSON.stringify(line)}\n`);
}
