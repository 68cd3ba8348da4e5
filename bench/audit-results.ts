/**
 * What the audit reaches on the bundled pair: the standard preset, drafter by drafter, on the first prompts of each
 * set. Every drafter and set is an audit of its own under out/audit, so that a stopped run goes on and a finished one
 * is only read; several processes can share the drafters out.
 * Run: npm run bench:audit [-- PROMPTS_PER_SET [THREADS [DRAFTER ...]]]
 */
import { join } from 'node:path';
import type { AuditResult, PromptResult } from '../src/audit/result.js';
import { summariseDrafter } from '../src/audit/summary.js';
import { packageRoot } from '../src/decode/bundled-models.js';
import { describeMachine } from '../src/measure/machine.js';
import { loadPrompts } from '../src/text/prompt-set.js';
import { dropText, runSavedAudit } from './saved-audit.js';
import { printTable } from './stopwatch.js';

const [perSet = '8', threads = '2', ...named] = process.argv.slice(2);
const drafters = named.length > 0 ? named : ['sps', 'medusa', 'hydra', 'eagle', 'eagle3'];
const sets = ['mt-bench', 'humaneval', 'gsm8k'];

const machine = describeMachine();
console.log(`${machine.processor} (${machine.architecture}), ${threads} threads, standard preset, chain:4\n`);
const rows = [
  ['drafter', 'prompts', 'n', 'clean', 'random', 'attacked', 'drop', 'KL', 'p, clean', 'p, random'],
];
for (const drafter of drafters) {
  const all: PromptResult[] = [];
  for (const set of sets) {
    const prompts = (await auditSet(drafter, set)).drafters[0]!.prompts;
    all.push(...prompts);
    rows.push(describe(drafter, set, prompts));
  }
  rows.push(describe(drafter, 'all', all));
}
printTable(rows);

async function auditSet(drafter: string, set: string): Promise<AuditResult> {
  const prompts = await loadPrompts(set, { folder: join(packageRoot, '../shared/data') });
  return runSavedAudit(join(packageRoot, 'out/audit', `${drafter}-${set}`), {
    prompts: prompts.slice(0, Number(perSet)),
    drafters: [drafter],
    draft: 'chain:4',
    settings: { controlSearches: false },
    threads: Number(threads),
  });
}

function describe(drafter: string, set: string, prompts: readonly PromptResult[]): string[] {
  const { arms, drop, againstClean, againstRandom, promptsAudited } = summariseDrafter(prompts, 0);
  const find = (name: string) => arms.find(({ arm }) => arm === name);
  const length = (name: string): string => find(name)?.meanAcceptedLength.estimate.toFixed(2) ?? '';
  const probability = (p: number): string => (p < 0.0001 ? '< 0.0001' : p.toFixed(4));
  return [
    drafter,
    set,
    String(promptsAudited),
    length('clean'),
    length('random'),
    length('attack'),
    dropText(drop),
    find('attack')?.divergence.toFixed(3) ?? '',
    probability(againstClean.pValue),
    probability(againstRandom.pValue),
  ];
}
