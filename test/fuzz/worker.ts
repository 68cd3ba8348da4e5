/**
 * One process of attempts: `node worker.js FOLDER KIND:FIRST:COUNT ...`. FOLDER/place holds the kind and the seed of the file
 * that is being tried, so that whoever kills this process, or sees it end, knows the file. It writes faults as lines of JSON,
 * and after each kind its counts.
 */
import { mkdirSync, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { maxBytes, tryFile } from './kind.js';
import { fuzzKinds } from './kinds.js';
import type { WorkerLine } from './run-kinds.js';

const [folder = '', ...plans] = process.argv.slice(2);
const place = openSync(join(folder, 'place'), 'w');
for (const plan of plans) {
  const [name = '', first, count] = plan.split(':');
  await tryKind(name, Number(first), Number(count));
}
process.exit();

async function tryKind(kind: string, first: number, count: number): Promise<void> {
  const workplace = join(folder, 'files', kind);
  mkdirSync(workplace, { recursive: true });
  const attempt = await fuzzKinds.find(({ name }) => name === kind)!.open(workplace);
  const counts = { files: count, accepted: 0, refused: 0, slowestCpuMs: 0, slowestSeed: first };
  for (let seed = first; seed < first + count; seed++) {
    writeSync(place, `${kind} ${seed}`.padEnd(40), 0);
    const outcome = await tryFile(attempt, seed);
    if ('fault' in outcome) {
      report({ kind, fault: { seed, what: outcome.fault } });
      continue;
    }
    if (outcome.accepted) counts.accepted++;
    else counts.refused++;
    const { cpuMs } = outcome;
    if (cpuMs > counts.slowestCpuMs) Object.assign(counts, { slowestCpuMs: cpuMs, slowestSeed: seed });
    const resident = process.memoryUsage.rss();
    if (resident > maxBytes)
      report({ kind, fault: { seed, what: `it holds ${Math.round(resident / 2 ** 20)} MiB` } });
  }
  report({ kind, counts });
}

function report(line: WorkerLine): void {
  writeSync(1, `${JSON.stringify(line)}\n`);
}
