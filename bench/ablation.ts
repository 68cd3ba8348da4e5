/**
 * Which objective and which projection find the worse suffix: every variant attacks the same prompts with the same
 * seed and effort, on each drafter. The search follows the objective alone, and the best few suffixes are decoded at the
 * end: with decoding inside the search the variants could hardly be told apart. Every round takes the next prompt of each
 * set; a variant in a round is an audit of its own under out/ablation, so that a stopped run goes on and a finished one is
 * only read.
 * Run: npm run bench:ablation [-- ROUNDS [STEPS [THREADS [DRAFTER ...]]]]
 */
import { join } from 'node:path';
import type { ArmName, AuditResult, PromptResult } from '../src/audit/result.js';
import { summariseDrafter } from '../src/audit/summary.js';
import type { AuditSettings } from '../src/audit/settings.js';
import { packageRoot } from '../src/decode/bundled-models.js';
import { describeMachine } from '../src/measure/machine.js';
import type { Prompt } from '../src/text/prompt-set.js';
import { loadPrompts } from '../src/text/prompt-set.js';
import { dropText, runSavedAudit } from './saved-audit.js';
import { printTable } from './stopwatch.js';

type Variant = Pick<AuditSettings, 'objective' | 'projection' | 'lambda'>;

const direction = { projection: 'direction', lambda: 2 } as const;
/** The first also runs the controls: the search without a projection, and without an objective. */
const variants: readonly Variant[] = [
  { objective: 'total-variation', ...direction },
  { objective: 'expected-length', ...direction },
  { objective: 'surprisal', ...direction },
  { objective: 'kl', ...direction },
  { objective: 'reverse-kl', ...direction },
  { objective: 'one-sided', ...direction },
  { objective: 'total-variation', projection: 'direction', lambda: 1 },
  { objective: 'total-variation', projection: 'subspace', lambda: 0 },
];

const [roundCount = '2', steps = '8', threads = '2', ...named] = process.argv.slice(2);
const drafters = named.length > 0 ? named : ['sps', 'eagle3'];
const sets = ['mt-bench', 'humaneval', 'gsm8k'];
const folder = join(packageRoot, '../shared/data');
const rounds = Array.from({ length: Number(roundCount) }, (_, index) => index + 1);

const machine = describeMachine();
console.log(
  `${machine.processor} (${machine.architecture}); ${rounds.length} prompts of each set, ${steps} steps of 32 candidates, the best 8 decoded, otherwise the standard preset\n`,
);
const rows: string[][] = [];
for (const [index, variant] of variants.entries()) {
  const projection =
    variant.projection === 'direction' ? `direction, lambda ${variant.lambda}` : variant.projection;
  const audited = new Map(drafters.map((drafter): [string, PromptResult[]] => [drafter, []]));
  for (const round of rounds) {
    const result = await runVariant(variant, round, index === 0);
    for (const { drafter, prompts } of result.drafters) audited.get(drafter)!.push(...prompts);
  }
  for (const [drafter, prompts] of audited) {
    rows.push(describe(drafter, variant.objective, projection, prompts, 'attack'));
    if (index > 0) continue;
    rows.push(describe(drafter, variant.objective, 'none', prompts, 'unprojected'));
    rows.push(describe(drafter, 'none', 'none', prompts, 'preservation-only'));
  }
}
const byDrafter = drafters.flatMap((drafter) => rows.filter(([name]) => name === drafter));
printTable([
  ['drafter', 'objective', 'projection', 'clean', 'found', 'drop', 'KL', 'none found', 'p'],
  ...byDrafter,
]);

/** One search arm in the place of the attack. */
function describe(
  drafter: string,
  objective: string,
  projection: string,
  audited: readonly PromptResult[],
  arm: ArmName,
): string[] {
  const swapped = audited.map((prompt) => ({
    ...prompt,
    arms: prompt.arms.flatMap((entry) =>
      entry.arm === arm ? [{ ...entry, arm: 'attack' as const }] : entry.arm === 'clean' ? [entry] : [],
    ),
  }));
  const { arms, drop, againstClean } = summariseDrafter(swapped, 0);
  const find = (name: ArmName) => arms.find((row) => row.arm === name)!;
  const found = swapped.flatMap((prompt) => prompt.arms.filter((entry) => entry.arm === 'attack'));
  return [
    drafter,
    objective,
    projection,
    find('clean').meanAcceptedLength.estimate.toFixed(2),
    find('attack').meanAcceptedLength.estimate.toFixed(2),
    dropText(drop),
    find('attack').divergence.toFixed(3),
    `${found.filter(({ suffixIds }) => suffixIds.length === 0).length} of ${found.length}`,
    againstClean.pValue.toFixed(3),
  ];
}

async function runVariant(variant: Variant, round: number, controlSearches: boolean): Promise<AuditResult> {
  const name = [...Object.values(variant), round, steps, ...drafters].join('-');
  const effort = { steps: Number(steps), candidates: 32, decodes: 0, buffer: 8, patience: 4 };
  return runSavedAudit(join(packageRoot, 'out/ablation', name), {
    prompts: await promptsOf(round),
    drafters,
    settings: { ...variant, ...effort, controlSearches },
    threads: Number(threads),
  });
}

async function promptsOf(round: number): Promise<Prompt[]> {
  const prompts: Prompt[] = [];
  for (const set of sets) {
    const all = await loadPrompts(set, { folder });
    prompts.push(...all.slice(round - 1, round).map((prompt) => ({ ...prompt, id: `${set}-${prompt.id}` })));
  }
  return prompts;
}
