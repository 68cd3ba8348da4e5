/** A benchmark as Markdown: tables to paste into an issue, and below them in words what they mean. */
import { countText } from '../core/number-text.js';
import type { BenchmarkOptions, BenchmarkResult } from '../measure/benchmark.js';
import type { SpeculationSummary, SystemSummary } from '../measure/benchmark-summary.js';
import type { Interval } from '../measure/statistics.js';
import type { Machine } from '../runs/run-device.js';
import { nameDevice } from '../runtime/device-choice.js';
import { type Column, paddedMarkdown } from './table.js';

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
  const sections = [
    formatTable(summaryColumns, summaries),
    formatRemarks(result, setting),
    `Share of steps whose accepted path reached each depth:\n\n${formatDepths(summaries)}`,
    ...(categories.length === 0
      ? []
      : [
          `By category, mean accepted length (bonus token included) and speedup over plain decoding:\n\n${formatCategories(categories)}`,
        ]),
  ];
  return `${sections.join('\n\n')}\n`;
}

interface SummaryColumn extends Column {
  readonly cell: (summary: SystemSummary) => string;
}

const left = (name: string, cell: SummaryColumn['cell']): SummaryColumn => ({ name, align: 'left', cell });
const right = (name: string, cell: SummaryColumn['cell']): SummaryColumn => ({ name, cell });

const summaryColumns: readonly SummaryColumn[] = [
  left('prompts', ({ set }) => set),
  left('system', ({ system }) => system),
  left('policy', ({ policy }) => policy),
  right('n', ({ requests }) => String(requests)),
  // Plain decoding emits one token a step, by definition.
  right('mean accepted length (bonus token included)', ({ speculation }) =>
    speculation === undefined ? '1' : formatInterval(speculation.meanAcceptedLength),
  ),
  right('mean of request means', ({ speculation }) => speculation?.meanOfRequestMeans.toFixed(2) ?? '1'),
  right('prefill, ms', ({ prefillMs }) => prefillMs.toFixed(1)),
  right('decoding, tokens/s', ({ tokensPerSecond }) => tokensPerSecond.toFixed(1)),
  right('speedup over plain', ({ speculation }) =>
    speculation === undefined ? '1x' : formatInterval(speculation.speedup, 'x'),
  ),
  right('draft / verify / rest', ({ speculation }) =>
    speculation === undefined ? '' : Object.values(speculation.shares).map(formatPercent).join(' / '),
  ),
];

function formatTable(columns: readonly SummaryColumn[], summaries: readonly SystemSummary[]): string {
  const rows = summaries.map((summary) => ({ cells: columns.map(({ cell }) => cell(summary)) }));
  return paddedMarkdown({ columns, rows }).join('\n');
}

function formatDepths(summaries: readonly SystemSummary[]): string {
  const depth = Math.max(
    ...summaries.map((summary) => summary.speculation?.acceptanceByDepth.length ?? 0),
    1,
  );
  const columns = Array.from({ length: depth }, (_, level) =>
    right(String(level + 1), ({ speculation }) => formatPercent(speculation?.acceptanceByDepth[level])),
  );
  const speculative = summaries.filter(({ speculation }) => speculation !== undefined);
  return formatTable([...summaryColumns.slice(0, 3), ...columns], speculative);
}

/** Systems side by side, so that a category reads as one row. */
function formatCategories(categories: readonly SystemSummary[]): string {
  const cells = new Map(categories.map((summary) => [keyOf(summary), summary]));
  const plain = categories.filter(({ speculation }) => speculation === undefined);
  const systems = new Map(
    categories
      .filter(({ speculation }) => speculation !== undefined)
      .map(({ system, policy }) => [`${system} ${policy}`, { system, policy }]),
  );
  const columns = [...systems].map(([title, system]) =>
    right(title, (row) => formatCategoryCell(cells.get(keyOf({ ...row, ...system }))?.speculation)),
  );
  return formatTable(
    [
      left('prompts', ({ set }) => set),
      left('category', ({ category }) => category ?? ''),
      right('n', ({ requests }) => String(requests)),
      ...columns,
    ],
    plain,
  );
}

function keyOf({ set, category, system, policy }: SystemSummary): string {
  return JSON.stringify([set, category, system, policy]);
}

function formatCategoryCell(speculation: SpeculationSummary | undefined): string {
  if (speculation === undefined) return '';
  const { meanAcceptedLength, speedup } = speculation;
  return `${meanAcceptedLength?.estimate.toFixed(2) ?? '-'}, ${speedup?.estimate.toFixed(2) ?? '-'}x`;
}

function formatRemarks(result: BenchmarkResult, setting: BenchmarkSetting): string {
  const remarks = [
    describeSetting(setting),
    describeMachine(setting),
    ...describeTogether(result, setting),
    ...describeSameness(result.summaries),
    ...describePayoff(result.summaries),
    ...describeDoubts(result),
  ];
  return remarks.map((remark) => `- ${remark}`).join('\n');
}

function describeSetting(setting: BenchmarkSetting): string {
  const { target, maxNewTokens, sampling, seed, warmup } = setting;
  const { temperature, topK, topP } = sampling;
  const distribution = [
    temperature === 0 ? 'greedy' : `temperature ${temperature}`,
    ...(topK === undefined ? [] : [`top-k ${topK}`]),
    ...(topP === undefined ? [] : [`top-p ${topP}`]),
  ].join(', ');
  return (
    `Target model ${target}, ${distribution}, at most ${maxNewTokens} new tokens, ` +
    `seed ${seed}, ${countText(warmup, 'warm-up answer')} per system and set. ` +
    'Brackets: 95 % bootstrap intervals over prompts. Speed is of decoding alone, without prefill.'
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
  const totals = together.map(
    ({ set, system, policy, tokensPerSecond }) =>
      `${system}${policy === 'none' ? '' : ` ${policy}`} on ${set} ${tokensPerSecond.toFixed(1)}`,
  );
  return [
    `${concurrency} prompts were answered at the same time: times and tokens/s in the table are of each request among the others. ` +
      `Tokens/s of all of them together, prefill included: ${totals.join(', ')}.`,
  ];
}

function describeSameness(summaries: readonly SystemSummary[]): readonly string[] {
  const compared = summaries.filter(({ speculation }) => speculation?.differingAnswers !== undefined);
  if (compared.length === 0) return ['Tokens were drawn, so answers are not compared with plain decoding’s.'];
  const wrong = compared.filter(({ speculation }) => speculation!.differingAnswers! > 0);
  if (wrong.length === 0) return ['Every answer equals plain decoding’s, token for token.'];
  return wrong.map(
    (summary) =>
      `**${nameOf(summary)}: ${summary.speculation!.differingAnswers!} of ${summary.requests} answers differ from plain decoding’s; 0 was expected.**`,
  );
}

function describePayoff(summaries: readonly SystemSummary[]): readonly string[] {
  const measured = summaries.flatMap((summary) => {
    const speedup = summary.speculation?.speedup;
    // One prompt has no interval and decides nothing.
    return speedup === undefined || speedup.n < 2 ? [] : [{ summary, speedup }];
  });
  const losing = measured.filter(({ speedup }) => speedup.high < 1);
  const open = measured.filter(({ speedup }) => speedup.low <= 1 && speedup.high >= 1);
  const list = (entries: typeof measured): string =>
    entries.map(({ summary, speedup }) => `${nameOf(summary)} (${speedup.estimate.toFixed(2)}x)`).join(', ');
  if (measured.length > 0 && losing.length + open.length === 0) return ['Speculation pays in every row.'];
  return [
    ...(losing.length === 0 ? [] : [`Speculation does not pay, it is slower than plain: ${list(losing)}.`]),
    ...(open.length === 0 ? [] : [`No clear gain, the interval holds 1x: ${list(open)}.`]),
  ];
}

function describeDoubts({ summaries, interrupted }: BenchmarkResult): readonly string[] {
  const failing = summaries.filter(({ speculation }) => (speculation?.drafterFailures ?? 0) > 0);
  return [
    ...failing.map(
      (summary) =>
        `${nameOf(summary)}: the drafter failed in ${summary.speculation!.drafterFailures} of ${summary.requests} answers, which plain decoding finished.`,
    ),
    ...(summaries.some(({ requests }) => requests < 10)
      ? ['With fewer than 10 prompts the intervals are too narrow.']
      : []),
    ...(interrupted ? ['The run was interrupted: these are the prompts that were finished.'] : []),
  ];
}

function nameOf({ set, system, policy }: SystemSummary): string {
  return `${system} ${policy} on ${set}`;
}

function formatInterval(interval: Interval | undefined, unit = ''): string {
  if (interval === undefined) return '-';
  const { estimate, low, high, n } = interval;
  const range = n < 2 ? '' : ` [${low.toFixed(2)}, ${high.toFixed(2)}]`;
  return `${estimate.toFixed(2)}${unit}${range}`;
}

function formatPercent(share: number | undefined): string {
  return share === undefined ? '' : `${(100 * share).toFixed(0)} %`;
}
