/**
 * What the audit reaches on the bundled pair: the standard preset, drafter by drafter, on the first prompts of each set
 * whose clean answers have 24 tokens or more. Audits of three prompts each lie under out/audit, the first of all sets
 * first, so that a stopped run goes on and a finished one is only read. With more candidates than the preset's, or on a
 * GPU (in float32, as on the CPU), they lie in a folder of their own. Several processes share the work by drafter and set.
 * Run: npm run bench:audit [-- --per-set 8 --threads 2 --candidates 8 --device cpu --drafters sps,... --sets gsm8k,... --processes 1]
 */
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { ArmName } from '../src/audit/arms/arms.js';
import type { PromptResult } from '../src/audit/result.js';
import { presets } from '../src/audit/settings.js';
import { summariseDrafter } from '../src/audit/summary.js';
import { packageRoot } from '../src/decode/bundled-models.js';
import { adjustHolm } from '../src/measure/holm.js';
import { describeMachine } from '../src/measure/machine.js';
import { choosePrompts, dropText, promptSets, runSavedAudit } from './saved-audit.js';
import { printTable } from './stopwatch.js';

const { values: given } = parseArgs({
  options: {
    'per-set': { type: 'string', default: '8' },
    threads: { type: 'string', default: '2' },
    candidates: { type: 'string', default: String(presets.standard.candidates) },
    device: { type: 'string', default: 'cpu' },
    drafters: { type: 'string', default: 'sps,medusa,hydra,eagle,eagle3' },
    sets: { type: 'string', default: promptSets.join() },
    processes: { type: 'string', default: '1' },
  },
});
const [perSet, threads, candidates] = [given['per-set'], given.threads, given.candidates].map(Number) as [
  number,
  number,
  number,
];
const drafters = given.drafters.split(',');
const sets = promptSets.filter((set) => given.sets.split(',').includes(set));
const isUsual = candidates === presets.standard.candidates && given.device === 'cpu';
const runs = isUsual ? 'out/audit' : `out/audit-${given.device}-${candidates}`;
const promptsAtOnce = 3;
const { processor, architecture } = describeMachine();
console.log(
  `${given.device}, ${processor} (${architecture}), ${threads} threads, standard preset with ${candidates} candidates a step, chain:4, greedy, bound 0.1\n`,
);

const startMs = performance.now();
if (Number(given.processes) > 1) await shareOut(Number(given.processes));
const chosen = await choosePrompts(perSet, presets.standard.shortestAnswer);
const audited = new Map<string, PromptResult[]>();
for (let first = 0; first < perSet; first += promptsAtOnce) {
  for (const drafter of drafters) {
    for (const set of sets) {
      const folder = join(packageRoot, runs, `${drafter}-${set}-${first + 1}`);
      const result = await runSavedAudit(folder, {
        prompts: chosen.get(set)!.slice(first, first + promptsAtOnce),
        drafters: [drafter],
        draft: 'chain:4',
        settings: { candidates },
        device: given.device,
        dtype: 'float32',
        threads,
      });
      const key = `${drafter}/${set}`;
      audited.set(key, [...(audited.get(key) ?? []), ...result.drafters[0]!.prompts]);
    }
  }
}
console.log(`${((performance.now() - startMs) / 60_000).toFixed(1)} minutes, finished audits not counted\n`);
const rows: string[][] = [];
const weakest: number[] = [];
for (const drafter of drafters) {
  const bySet = sets.map((set) => [set, audited.get(`${drafter}/${set}`)!] as const);
  const all = bySet.flatMap(([, prompts]) => prompts);
  rows.push(...bySet.map(([set, prompts]) => describe(drafter, set, prompts)), describe(drafter, 'all', all));
  weakest.push(Math.max(...summariseDrafter(all, 0).tests.map(({ pValue }) => pValue)));
}
printTable([
  [
    ...['drafter', 'prompts', 'n', 'clean', 'random', 'fluent', 'undirected', 'attack', 'drop'],
    ...[
      'passes',
      'identical/task/similar/different',
      'no suffix',
      'KL',
      'p, clean',
      'p, random',
      'p, fluent',
      'p, undirected',
    ],
  ],
  ...rows,
]);
console.log('\nLargest p of each drafter over all prompts, corrected for the number of drafters (Holm):');
adjustHolm(weakest).forEach((pValue, index) => {
  console.log(`- ${drafters[index]!}: ${probability(pValue)}`);
});

/** One process for each drafter and set, so many at a time; this one then reads what they have written. */
async function shareOut(processes: number): Promise<void> {
  const parts = drafters.flatMap((drafter) => sets.map((set) => ({ drafter, set })));
  const work = async (): Promise<void> => {
    for (let part = parts.shift(); part !== undefined; part = parts.shift()) {
      const { drafter, set } = part;
      const same = ['per-set', 'threads', 'candidates', 'device'] as const;
      const options = same.flatMap((name) => [`--${name}`, given[name]]);
      const own = ['--drafters', drafter, '--sets', set, '--processes', '1'];
      const child = spawn(process.execPath, [process.argv[1]!, ...options, ...own], {
        stdio: ['ignore', 'ignore', 'inherit'],
      });
      const code = await new Promise((resolve) => child.once('close', resolve));
      if (code !== 0) console.log(`${drafter} on ${set} ended with ${String(code)}`);
    }
  };
  await Promise.all(Array.from({ length: processes }, work));
}

function describe(drafter: string, set: string, prompts: readonly PromptResult[]): string[] {
  const { arms, drop, tests, promptsAudited, promptsWithoutSuffix } = summariseDrafter(prompts, 0);
  const find = (name: ArmName) => arms.find(({ arm }) => arm === name);
  const length = (name: ArmName): string => find(name)?.sameAnswer.estimate.toFixed(2) ?? '';
  const pOf = (control: string): string => {
    const test = tests.find(({ against }) => against === control);
    return test === undefined ? '' : probability(test.pValue);
  };
  const attack = find('attack');
  return [
    ...[drafter, set, String(promptsAudited)],
    ...(['clean', 'random', 'fluent', 'undirected', 'attack'] as const).map(length),
    dropText(drop),
    `${find('clean')?.passes.toFixed(1) ?? ''} to ${attack?.passes.toFixed(1) ?? ''}`,
    Object.values(attack?.kept ?? {}).join('/'),
    String(promptsWithoutSuffix),
    attack?.divergence.toFixed(3) ?? '',
    ...['clean', 'random', 'fluent', 'undirected'].map(pOf),
  ];
}

function probability(p: number): string {
  return p < 0.0001 ? '< 0.0001' : p.toFixed(4);
}
