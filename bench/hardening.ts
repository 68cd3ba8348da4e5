/**
 * What hardening reaches on the bundled pair: each drafter is hardened on questions of shared/data and audited on the
 * first prompts of each set whose clean answers are long enough, beside what it was and beside training on random
 * suffixes. Runs lie under out/hardening, one for each drafter: a stopped one goes on, a finished one is only read. Other
 * settings want another --name.
 * Run: npm run bench:hardening [-- --drafters eagle3,sps --questions 5000 --per-set 8 --rounds 4 --prompts-per-round 32
 *   --search-steps 24 --steps-per-round 300 --learning-rate 2e-4 --suffixed-share 0.5 --preset standard
 *   --audits fresh,other-objective,stronger --stronger-prompts 4 --threads 2 --device cpu --name usual]
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { configFile } from '../src/runs/run-units.js';
import { presets } from '../src/audit/settings.js';
import { packageRoot } from '../src/decode/bundled-models.js';
import { describeMachine } from '../src/measure/machine.js';
import { createHardenRequest } from '../src/train/harden-request.js';
import type { HardenOptions } from '../src/train/harden-run.js';
import { resumeHardening, startHardening } from '../src/train/harden-run.js';
import { describeTimes } from '../src/report/harden/hardening-markdown.js';
import { writeHardeningReports } from '../src/report/harden/hardening-report.js';
import type { HardeningResult } from '../src/train/hardening-result.js';
import { auditNames, hardeningDefaults, hardeningRate } from '../src/train/hardening-settings.js';
import { auditTable, describeComparison, roundTable } from '../src/report/harden/hardening-words.js';
import { tableMarkdown } from '../src/report/table.js';
import { choosePrompts } from './saved-audit.js';

const count = (value: number) => ({ type: 'string', default: String(value) }) as const;
const { values: given } = parseArgs({
  options: {
    drafters: { type: 'string', default: 'eagle3,sps' },
    ...{ questions: count(5000), 'per-set': count(8), rounds: count(hardeningDefaults.rounds) },
    'prompts-per-round': count(hardeningDefaults.promptsPerRound),
    'search-steps': count(hardeningDefaults.searchSteps),
    'steps-per-round': count(hardeningDefaults.stepsPerRound),
    'learning-rate': count(hardeningRate),
    'suffixed-share': count(hardeningDefaults.suffixedShare),
    preset: { type: 'string', default: 'standard' },
    audits: { type: 'string', default: auditNames.join() },
    ...{ 'stronger-prompts': count(4), threads: count(2) },
    device: { type: 'string', default: 'cpu' },
    name: { type: 'string', default: 'usual' },
  },
});
const options: HardenOptions = {
  events: {
    onNotice: tell,
    onHunt: ({ role, round }, { prompt, texts, skipped }, done, total) => {
      const lengths = texts.map(({ length }) => length?.toFixed(2) ?? '-').join(' ');
      tell(`${role} ${round}: ${done}/${total} ${prompt} ${skipped ?? lengths}`);
    },
    onLine: ({ role, round }, line) => {
      if (line.kind === 'length')
        tell(`${role} ${round}: clean ${line.length.toFixed(3)} after ${line.update}`);
      else if (line.update % 10 === 0)
        tell(`${role} ${round}: update ${line.update}, loss ${line.loss.toFixed(3)}`);
    },
    audit: {
      onUnitEnd: ({ drafter, prompt, arm }, length) => {
        if (arm === 'attack') tell(`${drafter} ${prompt} attacked ${length?.toFixed(2) ?? '-'}`);
      },
    },
  },
};
const folder = join(packageRoot, 'out/hardening', given.name);
const { processor, architecture } = describeMachine();
console.log(
  `${given.device}, ${processor} (${architecture}), ${given.threads} threads, preset ${given.preset}\n`,
);

for (const drafter of given.drafters.split(',')) {
  try {
    printResult(drafter, await harden(drafter));
  } catch (cause) {
    // One drafter's failure is not the other's.
    console.log(`${drafter}: ${cause instanceof Error ? cause.message : String(cause)}\n`);
    process.exitCode = 1;
  }
}

function tell(text: string): void {
  process.stderr.write(`${text}\n`);
}

async function harden(drafter: string): Promise<HardeningResult> {
  const place = join(folder, drafter);
  const finished = join(place, 'result.json');
  if (existsSync(finished)) return JSON.parse(readFileSync(finished, 'utf8')) as HardeningResult;
  process.stderr.write(`${place}\n`);
  const outcome = existsSync(join(place, configFile))
    ? await resumeHardening(place, options)
    : await startHardening(place, await request(drafter), options);
  if (outcome.status === 'interrupted') throw new Error('The run was interrupted.');
  await writeHardeningReports(place, outcome.result);
  return outcome.result;
}

async function request(drafter: string) {
  const { shortestAnswer } = presets.standard;
  const chosen = await choosePrompts(Number(given['per-set']), shortestAnswer);
  return createHardenRequest({
    ...{ drafter, data: writeQuestions(), preset: given.preset, device: given.device },
    // As on the CPU.
    ...(given.device === 'cpu' ? {} : { dtype: 'float32' as const }),
    // Of all sets in turn, so that the few of the stronger audit are of each.
    prompts: interleave([...chosen.values()]),
    hardening: {
      ...{ rounds: Number(given.rounds), promptsPerRound: Number(given['prompts-per-round']) },
      ...{ searchSteps: Number(given['search-steps']), stepsPerRound: Number(given['steps-per-round']) },
      suffixedShare: Number(given['suffixed-share']),
    },
    training: { rate: Number(given['learning-rate']) },
    audits: auditNames.filter((name) => given.audits.split(',').includes(name)),
    ...{ strongerPrompts: Number(given['stronger-prompts']), threads: Number(given.threads) },
  });
}

/** The first of the training questions, in a file that stays the same while the run lasts. */
function writeQuestions(): string {
  const lines = readFileSync(join(packageRoot, '../shared/data/train.jsonl'), 'utf8').trimEnd().split('\n');
  mkdirSync(folder, { recursive: true });
  const file = join(folder, `questions-${given.questions}.jsonl`);
  if (!existsSync(file)) writeFileSync(file, `${lines.slice(0, Number(given.questions)).join('\n')}\n`);
  return file;
}

function interleave<Item>(lists: readonly (readonly Item[])[]): readonly Item[] {
  const longest = Math.max(...lists.map(({ length }) => length));
  return Array.from({ length: longest }, (_, place) =>
    lists.flatMap((list) => list.slice(place, place + 1)),
  ).flat();
}

function printResult(drafter: string, result: HardeningResult): void {
  console.log(`### ${drafter}\n`);
  for (const audit of result.audits) console.log([audit.audit, '', ...tableMarkdown(auditTable(audit)), ''].join('\n'));
  console.log('');
  for (const audit of result.audits)
    for (const sentence of describeComparison(audit)) console.log(`- ${audit.audit}: ${sentence}`);
  console.log('');
  console.log(tableMarkdown(roundTable(result)).join('\n'));
  console.log(`\n${describeTimes(result)}\n`);
}
