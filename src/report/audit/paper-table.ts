/**
 * The columns of the published attack (arXiv 2605.14005) beside ours: speedup, accepted length and tokens per second of
 * free-running answers without and with the suffix, perplexity and similarity of the answers, and the accepted length
 * along the same answer. One row for each drafter and prompt set.
 */
import type { AuditTimings } from '../../audit/arms/phase-clock.js';
import type { AuditResult, PromptResult } from '../../audit/result.js';
import { countedArm, summariseDrafter } from '../../audit/summary.js';
import {
  acceptedLengthText,
  percentText,
  perplexityText,
  rateText,
  speedupText,
} from '../../core/number-text.js';
import type { Row, Table } from '../table.js';
import { findArm } from './audit-words.js';
import { summariseTimings } from './timing-summary.js';

const columns = [
  'drafter',
  { name: 'prompts', align: 'left' as const },
  'speedup',
  'attacked',
  'accepted length',
  'attacked',
  'tokens/s',
  'attacked',
  'perplexity',
  'attacked',
  'similarity',
  'same answer',
  'attacked',
];

/** Undefined for presets other than the paper's. */
export function paperTable(result: AuditResult, timings: AuditTimings): Table | undefined {
  if (result.setup.preset !== 'paper') return undefined;
  const rows = result.drafters.flatMap(({ drafter, prompts }) =>
    listSets(prompts).flatMap(({ name, own }) => row(drafter, name, own, result.setup.seed, timings)),
  );
  return { columns, rows };
}

/** Sets that were audited together are told apart by the beginning of the prompts' ids. */
function listSets(
  prompts: readonly PromptResult[],
): readonly { name: string; own: readonly PromptResult[] }[] {
  const sets = new Map<string, PromptResult[]>();
  for (const prompt of prompts) {
    const [name = 'all'] = /^(?:mt-bench|humaneval|gsm8k)(?=-)/.exec(prompt.promptId) ?? [];
    sets.set(name, [...(sets.get(name) ?? []), prompt]);
  }
  const named = [...sets].map(([name, own]) => ({ name, own }));
  return named.length === 1
    ? [{ name: named[0]!.name, own: prompts }]
    : [...named, { name: 'all', own: prompts }];
}

function row(
  drafter: string,
  set: string,
  prompts: readonly PromptResult[],
  seed: number,
  timings: AuditTimings,
): readonly Row[] {
  const summary = summariseDrafter(prompts, seed);
  const counted = countedArm(prompts);
  const [clean, attacked] = [findArm(summary, 'clean'), findArm(summary, counted)];
  if (clean === undefined || attacked === undefined) return [];
  const ids = new Set(prompts.map(({ promptId }) => promptId));
  const own = { ...timings, arms: timings.arms.filter(({ promptId }) => ids.has(promptId)) };
  const [before, after] = [summariseTimings(own, drafter, 'clean'), summariseTimings(own, drafter, counted)];
  return [
    {
      cells: [
        ...[drafter, set, speedupText(before.speedup), speedupText(after.speedup)],
        ...[acceptedLengthText(clean.freeRunning), acceptedLengthText(attacked.freeRunning)],
        ...[rateText(before.tokensPerSecond), rateText(after.tokensPerSecond)],
        ...[perplexityText(clean.answerPerplexity), perplexityText(attacked.answerPerplexity)],
        percentText(attacked.editSimilarity),
        acceptedLengthText(clean.sameAnswer.estimate),
        { value: acceptedLengthText(attacked.sameAnswer.estimate), strong: true },
      ],
    },
  ];
}
