/**
 * What the audit reaches on the bundled pair: the standard preset, drafter by drafter, on the first prompts of each set
 * whose clean answers have 24 tokens or more. Audits of three prompts each lie under out/audit, the first of all sets first, so that a
 * stopped run goes on and a finished one is only read.
 * Run: npm run bench:audit [-- PROMPTS_PER_SET [THREADS [DRAFTER ...]]]
 */
import { join } from 'node:path';
import type { ArmName } from '../src/audit/arms.js';
import type { PromptResult } from '../src/audit/result.js';
import { presets } from '../src/audit/settings.js';
import { summariseDrafter } from '../src/audit/summary.js';
import { packageRoot } from '../src/decode/bundled-models.js';
import { adjustHolm } from '../src/measure/holm.js';
import { describeMachine } from '../src/measure/machine.js';
import { choosePrompts, dropText, promptSets, runSavedAudit } from './saved-audit.js';
import { printTable } from './stopwatch.js';

const [perSet = '8', threads = '2', ...named] = process.argv.slice(2);
const drafters = named.length > 0 ? named : ['sps', 'medusa', 'hydra', 'eagle', 'eagle3'];
const promptsAtOnce = 3;
const { processor, architecture } = describeMachine();
console.log(
  `${processor} (${architecture}), ${threads} threads, standard preset, chain:4, greedy, bound 0.1\n`,
);

const chosen = await choosePrompts(Number(perSet), presets.standard.shortestAnswer);
const audited = new Map<string, PromptResult[]>();
for (let first = 0; first < Number(perSet); first += promptsAtOnce) {
  for (const drafter of drafters) {
    for (const set of promptSets) {
      const folder = join(packageRoot, 'out/audit', `${drafter}-${set}-${first + 1}`);
      const result = await runSavedAudit(folder, {
        prompts: chosen.get(set)!.slice(first, first + promptsAtOnce),
        drafters: [drafter],
        draft: 'chain:4',
        threads: Number(threads),
      });
      const key = `${drafter}/${set}`;
      audited.set(key, [...(audited.get(key) ?? []), ...result.drafters[0]!.prompts]);
    }
  }
}
const rows: string[][] = [];
const weakest: number[] = [];
for (const drafter of drafters) {
  const bySet = promptSets.map((set) => [set, audited.get(`${drafter}/${set}`)!] as const);
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
