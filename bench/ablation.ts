/**
 * Which objective, which projection, how much of the answer: every variant attacks the same prompts with the same seed and
 * effort, and is measured along the same answers. One factor is changed at a time around the standard preset; the last
 * rows are the paper's own setting and the search without direction. A variant on a drafter is an audit of its own under
 * out/ablation, so that a stopped run goes on and a finished one is only read.
 * Run: npm run bench:ablation [-- PROMPTS_PER_SET [THREADS [DRAFTER ...]]]
 */
import { join } from 'node:path';
import type { ArmName, PromptResult } from '../src/audit/result.js';
import type { AuditSettings } from '../src/audit/settings.js';
import { presets } from '../src/audit/settings.js';
import { summariseDrafter } from '../src/audit/summary.js';
import { packageRoot } from '../src/decode/bundled-models.js';
import { describeMachine } from '../src/measure/machine.js';
import type { Prompt } from '../src/text/prompt-set.js';
import { choosePrompts, dropText, runSavedAudit } from './saved-audit.js';
import { printTable } from './stopwatch.js';

interface Variant {
  readonly name: string;
  readonly preset?: 'paper';
  readonly settings?: Partial<AuditSettings>;
}

/** The first also stands for the search without direction, which every audit runs. */
const variants: readonly Variant[] = [
  { name: 'margin, direction 1, window 64 (standard)' },
  { name: 'margin, four levels deep', settings: { draftDepth: 4 } },
  ...(['total-variation', 'expected-length', 'surprisal', 'kl', 'reverse-kl', 'one-sided'] as const).map(
    (objective) => ({ name: objective, settings: { objective, draftDepth: 4 } }),
  ),
  { name: 'margin, no projection', settings: { projection: 'none' } },
  { name: 'margin, direction 2', settings: { lambda: 2 } },
  { name: 'margin, subspace', settings: { projection: 'subspace' } },
  { name: 'margin, window 20', settings: { window: 20 } },
  { name: 'margin, one-token moves', settings: { moves: 1, merges: 1 } },
  { name: 'the paper’s setting', preset: 'paper' },
];

const [perSet = '2', threads = '2', ...named] = process.argv.slice(2);
const drafters = named.length > 0 ? named : ['sps', 'eagle3'];
const { processor, architecture } = describeMachine();
console.log(`${processor} (${architecture}), ${threads} threads, ${perSet} prompts of each set, chain:4\n`);

const chosen = await choosePrompts(Number(perSet), presets.standard.shortestAnswer);
const prompts: readonly Prompt[] = [...chosen.values()].flat();
const rows: string[][] = [];
for (const drafter of drafters) {
  for (const [index, variant] of variants.entries()) {
    const folder = `${drafter}-${variant.name.replace(/[^a-z0-9]+/gi, '-')}-${perSet}`;
    const result = await runSavedAudit(join(packageRoot, 'out/ablation', folder), {
      prompts,
      drafters: [drafter],
      draft: 'chain:4',
      preset: variant.preset ?? 'standard',
      settings: { randomDraws: 1, ...variant.settings },
      threads: Number(threads),
    });
    const audited = result.drafters[0]!.prompts;
    rows.push(describe(drafter, variant.name, audited, 'attack'));
    if (index === 0) rows.push(describe(drafter, 'no gradient, no objective', audited, 'undirected'));
  }
}
printTable([['drafter', 'search', 'n', 'clean', 'found', 'drop', 'KL', 'no suffix', 'p, clean'], ...rows]);

/** One search arm in the place of the attack. */
function describe(drafter: string, name: string, audited: readonly PromptResult[], arm: ArmName): string[] {
  const swapped = audited.map((prompt) => ({
    ...prompt,
    arms: prompt.arms.flatMap((entry) =>
      entry.arm === arm ? [{ ...entry, arm: 'attack' as const }] : entry.arm === 'clean' ? [entry] : [],
    ),
  }));
  const { arms, drop, tests, promptsAudited, promptsWithoutSuffix } = summariseDrafter(swapped, 0);
  const find = (wanted: ArmName) => arms.find((row) => row.arm === wanted)!;
  return [
    drafter,
    name,
    String(promptsAudited),
    find('clean').sameAnswer.estimate.toFixed(2),
    find('attack').sameAnswer.estimate.toFixed(2),
    dropText(drop),
    find('attack').divergence.toFixed(3),
    String(promptsWithoutSuffix),
    tests[0]!.pValue.toFixed(3),
  ];
}
