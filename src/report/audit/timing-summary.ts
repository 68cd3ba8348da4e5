/** Measured times by row, as medians over prompts, which one slow moment of a shared machine cannot move far; and tables of them. */
import type { ArmTiming, AuditTimings } from '../../audit/arms/phase-clock.js';
import type { ArmName, AuditResult, PromptResult } from '../../audit/result.js';
import { countedArm, summariseDrafter } from '../../audit/summary.js';
import {
  acceptedLengthText,
  durationText,
  percentText,
  perplexityText,
  rateText,
  speedupText,
} from '../../core/number-text.js';
import { median as middleOf } from '../../core/vector.js';
import type { Row, Table } from '../table.js';
import { findArm } from './audit-words.js';

export function summariseTimings(
  timings: AuditTimings,
  drafter: string,
  arm: ArmName,
): { readonly speedup: number | null; readonly tokensPerSecond: number | null } {
  const rows = timings.arms.filter((row) => row.drafter === drafter && row.arm === arm);
  const medianOf = (name: 'speedup' | 'tokensPerSecond'): number | null =>
    median(rows.flatMap((row) => row[name] ?? []));
  return { speedup: medianOf('speedup'), tokensPerSecond: medianOf('tokensPerSecond') };
}

export function median(values: readonly number[]): number | null {
  const finite = values.filter(Number.isFinite);
  return finite.length === 0 ? null : middleOf(finite);
}

/**
 * Where the time of an audit went: by drafter, the phases of the rows that count, the control rows as a whole, and the rest.
 * Times differ from run to run, so they are in reports and never in result.json.
 */
const phases = [
  ['gradient', 'gradientMs'],
  ['scoring', 'scoringMs'],
  ['exact lengths', 'exactLengthsMs'],
  ['decoding', 'decodingMs'],
] as const;

export const phaseLegend =
  'gradient, scoring of candidates, exact lengths (decoding along the clean answer) and free decoding: of the attack or the given suffixes; controls: all other rows; preparation: compiling and loading programs, of all rows; other: loading models, preparing prompts and everything else';

/** One row for each drafter where there are several, and one for all; undefined if nothing was measured. */
export function phaseTable({ arms: timed, totalMs }: AuditTimings): Table | undefined {
  if (timed.length === 0) return undefined;
  const all = sumPhases(timed);
  const busyMs = all.reduce((sum, time) => sum + time, 0);
  // Several workers compute for longer than the run takes.
  const wholeMs = timed.some(({ worker }) => worker !== undefined) ? Math.max(totalMs, busyMs) : totalMs;
  const share = (time: number): string =>
    wholeMs <= 0 ? durationText(time) : `${durationText(time)} (${percentText(time / wholeMs)})`;
  const drafters = [...new Set(timed.map(({ drafter }) => drafter))];
  const own = drafters.map((drafter) => ({
    cells: [drafter, ...sumPhases(timed.filter((arm) => arm.drafter === drafter)).map(share), '–', '–'],
  }));
  const other = share(Math.max(0, wholeMs - busyMs));
  return {
    columns: ['time', ...phases.map(([name]) => name), 'controls', 'preparation', 'other', 'total'],
    rows: [
      ...(own.length > 1 ? own : []),
      { cells: ['all', ...all.map(share), other, durationText(totalMs)] },
    ],
  };
}

/** [gradient, scoring, exact lengths, decoding, controls, preparation] */
function sumPhases(rows: readonly ArmTiming[]): readonly number[] {
  const isCounted = ({ arm }: ArmTiming): boolean => arm === 'attack' || arm === 'given';
  const sum = (some: readonly ArmTiming[], name: keyof ArmTiming['phases']): number =>
    some.reduce((total, row) => total + row.phases[name], 0);
  const counted = rows.filter(isCounted);
  const controls = rows.filter((row) => !isCounted(row));
  const computed = sum(controls, 'totalMs') - sum(controls, 'preparationMs');
  return [...phases.map(([, name]) => sum(counted, name)), computed, sum(rows, 'preparationMs')];
}

/**
 * The columns of the published attack (arXiv 2605.14005) beside ours: speedup, accepted length and tokens per second of
 * free-running answers without and with the suffix, perplexity and similarity of the answers, and the accepted length
 * along the same answer. One row for each drafter and prompt set.
 */
const paperColumns = [
  ...['speedup', 'attacked', 'accepted length', 'attacked', 'tokens/s', 'attacked', 'perplexity', 'attacked'],
  ...['similarity', 'same answer', 'attacked'],
];

/** Undefined for presets other than the paper's. */
export function paperTable(result: AuditResult, timings: AuditTimings): Table | undefined {
  if (result.setup.preset !== 'paper') return undefined;
  const rows = result.drafters.flatMap(({ drafter, prompts }) =>
    listSets(prompts).flatMap(({ name, own }) => paperRow(drafter, name, own, timings)),
  );
  return { columns: ['drafter', { name: 'prompts', align: 'left' }, ...paperColumns], rows };
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

function paperRow(
  drafter: string,
  set: string,
  prompts: readonly PromptResult[],
  timings: AuditTimings,
): readonly Row[] {
  const summary = summariseDrafter(prompts);
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
