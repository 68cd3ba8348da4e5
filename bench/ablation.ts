/**
 * Which objective and which projection find the worse suffix: every variant attacks the same prompts with the same
 * seed and effort, on each drafter. A variant is an audit of its own under out/ablation, so that a stopped run goes on.
 * Run: npm run bench:ablation [-- PROMPTS_PER_SET [STEPS [DRAFTER ...]]]
 */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createRequest } from '../src/audit/create-request.js';
import type { AuditResult } from '../src/audit/result.js';
import { resumeAudit, startAudit } from '../src/audit/run-audit.js';
import type { AuditSettings } from '../src/audit/settings.js';
import { packageRoot } from '../src/decode/bundled-models.js';
import { describeMachine } from '../src/measure/machine.js';
import type { Prompt } from '../src/text/prompt-set.js';
import { loadPrompts } from '../src/text/prompt-set.js';
import { printTable } from './stopwatch.js';

type Variant = Pick<AuditSettings, 'objective' | 'projection' | 'lambda'>;

const direction = { projection: 'direction', lambda: 2 } as const;
const variants: readonly Variant[] = [
  { objective: 'total-variation', ...direction },
  { objective: 'expected-length', ...direction },
  { objective: 'surprisal', ...direction },
  { objective: 'kl', ...direction },
  { objective: 'reverse-kl', ...direction },
  { objective: 'one-sided', ...direction },
  { objective: 'total-variation', projection: 'direction', lambda: 1 },
  { objective: 'total-variation', projection: 'none', lambda: 0 },
  { objective: 'total-variation', projection: 'subspace', lambda: 0 },
];

const [perSet = '2', steps = '16', ...named] = process.argv.slice(2);
const drafters = named.length > 0 ? named : ['sps', 'eagle3'];
const sets = ['mt-bench', 'humaneval', 'gsm8k'];
const folder = join(packageRoot, '../shared/data');
const prompts: Prompt[] = [];
for (const set of sets) {
  const chosen = (await loadPrompts(set, { folder })).slice(0, Number(perSet));
  prompts.push(...chosen.map((prompt) => ({ ...prompt, id: `${set}-${prompt.id}` })));
}

const machine = describeMachine();
console.log(
  `${machine.processor} (${machine.architecture}); ${prompts.length} prompts, ${steps} steps, otherwise the standard preset\n`,
);
const rows = [['drafter', 'objective', 'projection', 'clean', 'attacked', 'drop', 'KL', 'failed', 'p']];
for (const variant of variants) {
  const { drafters: results } = await runVariant(variant);
  for (const { drafter, summary, prompts: audited } of results) {
    const length = (arm: string): string =>
      summary.arms.find((row) => row.arm === arm)?.meanAcceptedLength.estimate.toFixed(2) ?? '';
    const { estimate, low, high } = summary.drop;
    const percent = (share: number): string => (100 * share).toFixed(0);
    const attacks = audited.flatMap(({ arms }) => arms.filter(({ arm }) => arm === 'attack'));
    rows.push([
      drafter,
      variant.objective,
      variant.projection === 'direction' ? `direction, lambda ${variant.lambda}` : variant.projection,
      length('clean'),
      length('attack'),
      `${percent(estimate)} % [${percent(low)}, ${percent(high)}]`,
      summary.arms.find(({ arm }) => arm === 'attack')?.divergence.toFixed(3) ?? '',
      `${attacks.filter(({ suffixIds }) => suffixIds.length === 0).length} of ${attacks.length}`,
      summary.againstClean.pValue.toFixed(3),
    ]);
  }
}
const [header, ...body] = rows;
printTable([
  header!,
  ...body.sort(([left = ''], [right = '']) => drafters.indexOf(left) - drafters.indexOf(right)),
]);

async function runVariant(variant: Variant): Promise<AuditResult> {
  const name = [...Object.values(variant), perSet, steps, ...drafters].join('-');
  const path = join(packageRoot, 'out/ablation', name);
  const finished = join(path, 'result.json');
  if (existsSync(finished)) return JSON.parse(readFileSync(finished, 'utf8')) as AuditResult;
  process.stderr.write(`${name}\n`);
  const settings = { ...variant, steps: Number(steps), controlSearches: false };
  const outcome = existsSync(path)
    ? await resumeAudit(path)
    : await startAudit(path, await createRequest({ prompts, drafters, settings }));
  if (outcome.status !== 'complete') throw new Error('The audit was interrupted.');
  return outcome.result;
}
