/** A benchmark as Markdown: tables to paste into an issue, and below them in words what they mean. */
import { acceptedLengthText, countText, percentText } from '../core/number-text.js';
import type { BenchmarkOptions } from '../measure/benchmark.js';
import {
  type BenchmarkResult,
  isFaulty,
  type SpeculationSummary,
  type SystemSummary,
} from '../measure/benchmark-summary.js';
import { type Interval, minPairs } from '../measure/statistics.js';
import type { Machine } from '../runs/run-device.js';
import { nameDevice } from '../runtime/device-choice.js';
import { type Cell, type Column, hasInterval, intervalCell, printTable } from './table.js';

/** What a reader needs to know to repeat the run. */
export interface BenchmarkSetting extends Pick<
  BenchmarkOptions,
  'maxNewTokens' | 'sampling' | 'seed' | 'warmup'
> {
  readonly target: string;
  readonly machine: Machine;
  readonly threads: number;
  readonly concurrency: number;
}

export function formatBenchmark(result: BenchmarkResult, setting: BenchmarkSetting): string {
  const { summaries, categories } = result;
  const remarks = [
    describeSetting(setting),
    describeMachine(setting),
    ...describeTogether(result, setting),
    ...describeSameness(summaries),
    ...describePayoff(summaries),
    ...describeDoubts(result),
  ];
  const sections = [
    formatTable(summaryColumns, summaries),
    remarks.map((remark) => `- ${remark}`).join('\n'),
    'Share of steps whose accepted path reached each depth:',
    formatDepths(summaries),
  ];
  if (categories.length > 0)
    sections.push(
      'By category, mean accepted length (bonus token included) and speedup over plain decoding:',
      formatCategories(categories),
    );
  return `${sections.join('\n\n')}\n`;
}

interface SummaryColumn extends Column {
  readonly cell: (summary: SystemSummary) => Cell | string;
}

const left = (name: string, cell: SummaryColumn['cell']): SummaryColumn => ({ name, align: 'left', cell });
const right = (name: string, cell: SummaryColumn['cell']): SummaryColumn => ({ name, cell });
/** `plain` is what plain decoding has by definition. */
const speculative = (
  name: string,
  plain: string,
  cell: (speculation: SpeculationSummary) => Cell | string,
): SummaryColumn => right(name, ({ speculation }) => (speculation === undefined ? plain : cell(speculation)));

const timesText = (factor: number): string => `${acceptedLengthText(factor)}x`;
const cellOf = (interval: Interval | undefined, text: (value: number) => string): Cell | string =>
  interval === undefined ? '–' : intervalCell(interval, text);

const systemColumns: readonly SummaryColumn[] = [
  left('prompts', ({ set }) => set),
  left('system', ({ system }) => system),
  left('policy', ({ policy }) => policy),
];
const countColumn = right('n', ({ requests }) => String(requests));

const summaryColumns: readonly SummaryColumn[] = [
  ...systemColumns,
  countColumn,
  speculative('mean accepted length (bonus token included)', '1', ({ meanAcceptedLength }) =>
    cellOf(meanAcceptedLength, acceptedLengthText),
  ),
  speculative('mean of request means', '1', ({ meanOfRequestMeans }) =>
    acceptedLengthText(meanOfRequestMeans),
  ),
  right('prefill, ms', ({ prefillMs }) => prefillMs.toFixed(1)),
  right('decoding, tokens/s', ({ tokensPerSecond }) => tokensPerSecond.toFixed(1)),
  speculative('speedup over plain', '1x', ({ speedup }) => cellOf(speedup, timesText)),
  speculative('draft / verify / rest', '', ({ shares }) =>
    Object.values(shares)
      .map((share) => percentText(share))
      .join(' / '),
  ),
];

function formatTable(columns: readonly SummaryColumn[], summaries: readonly SystemSummary[]): string {
  const rows = summaries.map((summary) => ({ cells: columns.map(({ cell }) => cell(summary)) }));
  return printTable({ columns, rows }, 'markdown').join('\n');
}

function formatDepths(summaries: readonly SystemSummary[]): string {
  const drafting = summaries.filter(({ speculation }) => speculation !== undefined);
  const deepest = Math.max(1, ...drafting.map(({ speculation }) => speculation!.acceptanceByDepth.length));
  const columns = Array.from({ length: deepest }, (_, level) =>
    speculative(String(level + 1), '', ({ acceptanceByDepth }) => {
      const share = acceptanceByDepth[level];
      return share === undefined ? '' : percentText(share);
    }),
  );
  return formatTable([...systemColumns, ...columns], drafting);
}

/** Systems side by side, so that a category reads as one row. */
function formatCategories(categories: readonly SystemSummary[]): string {
  const keyOf = ({ set, category }: SystemSummary): string => JSON.stringify([set, category]);
  const titleOf = ({ system, policy }: SystemSummary): string => `${system} ${policy}`;
  const plain = categories.filter(({ speculation }) => speculation === undefined);
  const drafting = categories.filter(({ speculation }) => speculation !== undefined);
  const columns = [...new Set(drafting.map(titleOf))].map((title) =>
    right(title, (row) => {
      const own = drafting.find((each) => titleOf(each) === title && keyOf(each) === keyOf(row));
      if (own?.speculation === undefined) return '';
      const { meanAcceptedLength, speedup } = own.speculation;
      return `${acceptedLengthText(meanAcceptedLength?.estimate ?? null)}, ${timesText(speedup?.estimate ?? NaN)}`;
    }),
  );
  const category = left('category', (row) => row.category ?? '');
  return formatTable([left('prompts', ({ set }) => set), category, countColumn, ...columns], plain);
}

function describeSetting({ target, maxNewTokens, sampling, seed, warmup }: BenchmarkSetting): string {
  const { temperature, topK, topP } = sampling;
  const distribution = [
    temperature === 0 ? 'greedy' : `temperature ${temperature}`,
    ...(topK === undefined ? [] : [`top-k ${topK}`]),
    ...(topP === undefined ? [] : [`top-p ${topP}`]),
  ].join(', ');
  return (
    `Target model ${target}, ${distribution}, at most ${maxNewTokens} new tokens, ` +
    `seed ${seed}, ${countText(warmup, 'warm-up answer')} per system and set. ` +
    'Parentheses: 95 % intervals over prompts. Speed is of decoding alone, without prefill.'
  );
}

function describeMachine({ machine, threads }: BenchmarkSetting): string {
  const { processor, cores, system, architecture, nodeVersion } = machine;
  const gpu = machine.device.kind === 'cpu' ? '' : `${nameDevice(machine.device)}; `;
  return `Machine: ${gpu}${processor}, ${cores} cores, ${countText(threads, 'thread')}, ${system} ${architecture}, Node ${nodeVersion}, Mistletoe ${machine.mistletoeVersion}.`;
}

function describeTogether(
  { together = [] }: BenchmarkResult,
  { concurrency }: BenchmarkSetting,
): readonly string[] {
  if (concurrency === 1) return [];
  const totals = together.map((total) => `${nameOf(total)} ${total.tokensPerSecond.toFixed(1)}`);
  return [
    `${concurrency} prompts were answered at the same time: times and tokens/s in the table are of each request among the others. ` +
      `Tokens/s of all of them together, prefill included: ${totals.join(', ')}.`,
  ];
}

function describeSameness(summaries: readonly SystemSummary[]): readonly string[] {
  const compared = summaries.filter(({ speculation }) => speculation?.differingAnswers !== undefined);
  if (compared.length === 0) return ['Tokens were drawn, so answers are not compared with plain decoding’s.'];
  const differing = compared.filter(({ speculation }) => speculation!.differingAnswers! > 0);
  const reason = compared.find(({ speculation }) => speculation!.lossReason)?.speculation!.lossReason;
  const lossy = reason === undefined ? '' : `, but ${reason} do not guarantee that`;
  if (differing.length === 0) return [`Every answer equals plain decoding’s, token for token${lossy}.`];
  return differing.map((summary) => {
    const { differingAnswers, lossReason } = summary.speculation!;
    const count = `${nameOf(summary)}: ${differingAnswers!} of ${summary.requests} answers differ from plain decoding’s`;
    return isFaulty(summary)
      ? `**${count}; 0 was expected.**`
      : `${count}: drafting with ${lossReason!} is lossy.`;
  });
}

function describePayoff(summaries: readonly SystemSummary[]): readonly string[] {
  const measured = summaries.flatMap((summary) => {
    const speedup = summary.speculation?.speedup;
    // What has no interval decides nothing.
    return speedup === undefined || !hasInterval(speedup) ? [] : [{ name: nameOf(summary), speedup }];
  });
  const list = (title: string, entries: typeof measured): string[] => {
    const names = entries.map(({ name, speedup }) => `${name} (${timesText(speedup.estimate)})`);
    return names.length === 0 ? [] : [`${title}: ${names.join(', ')}.`];
  };
  const losing = measured.filter(({ speedup }) => speedup.high < 1);
  const open = measured.filter(({ speedup }) => speedup.low <= 1 && speedup.high >= 1);
  if (measured.length > 0 && losing.length + open.length === 0) return ['Speculation pays in every row.'];
  return [
    ...list('Speculation does not pay, it is slower than plain', losing),
    ...list('No clear gain, the interval holds 1x', open),
  ];
}

function describeDoubts({ summaries, interrupted }: BenchmarkResult): readonly string[] {
  const failing = summaries.filter(({ speculation }) => (speculation?.drafterFailures ?? 0) > 0);
  const remarks = failing.map(
    (summary) =>
      `${nameOf(summary)}: the drafter failed in ${summary.speculation!.drafterFailures} of ${summary.requests} answers, which plain decoding finished.`,
  );
  if (summaries.some(({ requests }) => requests < minPairs))
    remarks.push(`With fewer than ${minPairs} prompts there is no interval.`);
  if (interrupted) remarks.push('The run was interrupted: these are the prompts that were finished.');
  return remarks;
}

const nameOf = ({ set, system, policy }: Pick<SystemSummary, 'set' | 'system' | 'policy'>): string =>
  `${policy === 'none' ? system : `${system} ${policy}`} on ${set}`;
