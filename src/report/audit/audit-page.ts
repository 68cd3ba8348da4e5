/** The report of an audit as one HTML file: its chapters, and its charts by prompt and by depth. */
import type { AuditTimings } from '../../audit/arms/phase-clock.js';
import type { ArmName, ArmSummary, AuditResult, AuditSetup, DrafterResult } from '../../audit/result.js';
import { arms } from '../../audit/result.js';
import { countedArm } from '../../audit/summary.js';
import { largest } from '../../core/vector.js';
import { acceptedLengthText } from '../../core/number-text.js';
import { type Series, drawChart, drawDepths, drawKey } from '../chart.js';
import { type Content, type Markup, fragment } from '../markup.js';
import { type Chapter, framePage, keepTogether } from '../page.js';
import { type Row, tableHtml } from '../table.js';
import { drawAnswers } from './answers.js';
import {
  armLabels,
  armLine,
  armPurposes,
  armStyle,
  describeCounts,
  describeDrop,
  describeTests,
  findArm,
  sameAnswerLength,
} from './audit-words.js';
import { cleanLevel, convergenceArms, drawConvergence, findScale, hasTraces } from './convergence.js';
import { levelNames } from './evidence.js';
import { type RowColumn, detailColumns, mainColumns, rowContext } from './row-columns.js';
import { drawSetup } from './setup.js';
import { drawBeyond } from './transfer.js';
import { describeOpening } from './verdict-card.js';
import type { DrafterVerdict, Verdict } from './verdict.js';

export function renderHtml(result: AuditResult, timings: AuditTimings, verdict: Verdict): string {
  const { target, version } = result.setup;
  return framePage({
    title: `Mistletoe audit of ${target.name}: ${verdict.level}`,
    brand: 'Mistletoe audit',
    opening: describeOpening(result, verdict),
    chapters: [
      { id: 'rows', name: 'Attack and controls', content: drawRows(result, timings, verdict) },
      ...drawCharts(result),
      { id: 'answers', name: 'Answers', content: drawAnswers(result) },
      ...drawBeyond(result),
      { id: 'setup', name: 'Setup', content: drawSetup(result, timings) },
    ],
    imprint: `Mistletoe ${version} · ${result.schema}`,
  });
}

/** One card for each drafter; all drafters of a chapter share one scale. */
function drawCharts(result: AuditResult): Chapter[] {
  const audited = result.drafters.filter(({ summary }) => summary.promptsAudited > 0);
  if (audited.length === 0) return [];
  return [
    { id: 'prompts', name: 'Prompts', content: drawPromptChapter(audited) },
    { id: 'depth', name: 'Depth', content: drawDepthChapter(audited) },
    ...(hasTraces(audited)
      ? [{ id: 'search', name: 'Search', content: drawSearchChapter(audited, result.setup) }]
      : []),
  ];
}

function drawPromptChapter(drafters: readonly DrafterResult[]): Markup {
  const longest = findLongest(drafters);
  return fragment`<h2>Prompt by prompt</h2>
<p class="lead">Each line is one prompt: how far the accepted length along its clean answer moves from no suffix to the
suffix that counts. The open marks are the controls; they should stay near the clean dot.</p>
${drawKey(present(drafters, arms).map(armStyle))}${drawGrid(drafters, (drafter) => drawPairedLengths(drafter, longest))}`;
}

function drawDepthChapter(drafters: readonly DrafterResult[]): Markup {
  const depths = drafters.flatMap(({ summary }) => summary.arms.map((row) => row.acceptanceByDepth.length));
  const deepest = Math.max(2, ...depths);
  return fragment`<h2>How deep drafts survive</h2>
<p class="lead">The share of steps along the clean answer whose accepted path reaches each depth. One minus the first
point is how often the very first draft token is thrown away.</p>
${drawKey(present(drafters, depthArms).map(armStyle))}${drawGrid(drafters, (drafter) => drawDepthAcceptance(drafter, deepest))}`;
}

function drawSearchChapter(drafters: readonly DrafterResult[], setup: AuditSetup): Markup {
  const { epsilon } = setup.options;
  const bounded = typeof epsilon === 'number' ? { value: epsilon, name: `bound ε = ${epsilon}` } : null;
  const lengths = findScale(drafters, 'acceptedLength', drafters.map(cleanLevel));
  const divergences = findScale(drafters, 'divergence', [bounded]);
  return fragment`<h2>How the search went</h2>
<p class="lead">Above, the lowest accepted length along the clean answer that the search has met so far inside the
bounds: lower is worse for the service. Below, how far the suffix that the search stands at moves the target’s own
distribution. Thick lines are medians over prompts, thin ones single prompts under attack. A curve that still falls at
its end says that a longer search may find worse; an undirected search that falls as far says that luck would do.</p>
${drawKey(present(drafters, convergenceArms).map(armLine))}${drawGrid(drafters, (drafter) => [
    drawConvergence(drafter, { quantity: 'acceptedLength', level: cleanLevel(drafter), scale: lengths }),
    drawConvergence(drafter, { quantity: 'divergence', level: bounded, scale: divergences }),
  ])}`;
}

function present(drafters: readonly DrafterResult[], wanted: readonly ArmName[]): ArmName[] {
  return wanted.filter((arm) => drafters.some(({ summary }) => findArm(summary, arm) !== undefined));
}

function drawGrid(drafters: readonly DrafterResult[], draw: (drafter: DrafterResult) => Content): Markup {
  return fragment`<div class="grid">${drafters.map(
    (drafter) =>
      fragment`<figure class="card"><figcaption><b>${drafter.drafter}</b>, n = ${drafter.summary.promptsAudited}</figcaption>${draw(drafter)}</figure>`,
  )}</div>`;
}

const depthArms: readonly ArmName[] = ['clean', 'random', 'fluent', 'undirected', 'given', 'attack'];

function drawDepthAcceptance({ drafter, summary }: DrafterResult, deepest: number): Markup {
  return drawDepths(
    `Share of steps that accept each draft depth of ${drafter}.`,
    deepest,
    depthArms.map((arm) => ({
      style: armStyle(arm),
      shares: findArm(summary, arm)?.acceptanceByDepth ?? [],
    })),
  );
}

const audited = ({ prompts }: DrafterResult) => prompts.filter(({ skipped }) => skipped === null);

function findLongest(drafters: readonly DrafterResult[]): number {
  const lengths = drafters.flatMap((drafter) =>
    audited(drafter).flatMap((prompt) => arms.map((arm) => sameAnswerLength(prompt, arm) ?? NaN)),
  );
  return 1.04 * largest(lengths.filter(Number.isFinite), 2);
}

/** Controls are drawn a little above or below the line, where the clean mark does not hide them; in rows. */
const offsets: Readonly<Partial<Record<ArmName, number>>> = {
  'clean-again': -0.27,
  'preservation-only': -0.27,
  undirected: -0.27,
  random: 0.27,
  fluent: 0.27,
};

function drawPairedLengths(result: DrafterResult, longest: number): Markup {
  const counted = countedArm(result.prompts);
  const pairs = audited(result)
    .map((prompt) => ({
      prompt,
      clean: sameAnswerLength(prompt, 'clean') ?? NaN,
      attacked: sameAnswerLength(prompt, counted) ?? NaN,
    }))
    .sort((left, right) => right.clean - right.attacked - (left.clean - left.attacked));
  const dotsOf = (arm: ArmName): Series => ({
    ...armStyle(arm),
    dots: pairs.flatMap(({ prompt }, row) => {
      const length = sameAnswerLength(prompt, arm);
      const title = `${prompt.promptId}, ${armLabels[arm]}: ${acceptedLengthText(length)} tokens per step`;
      return length === null ? [] : [{ x: length, y: row + (offsets[arm] ?? 0), title }];
    }),
  });
  const controls = [...arms].reverse().filter((arm) => arm !== counted && arm !== 'clean');
  const spoken = pairs.map(
    ({ prompt, clean, attacked }) =>
      `${prompt.promptId} ${acceptedLengthText(clean)} to ${acceptedLengthText(attacked)}`,
  );
  return drawChart({
    description: `Accepted length of ${result.drafter} along the clean answers, prompt by prompt: ${spoken.join(', ')}.`,
    height: (pairs.length > 24 ? 24 : 36) * pairs.length,
    x: { label: 'accepted length along the clean answer (tokens per step) →', domain: [1, longest] },
    y: {
      domain: [pairs.length - 0.5, -0.5],
      ticks: pairs.map(({ prompt }, row) => ({ at: row, text: shorten(prompt.promptId) })),
    },
    series: [
      {
        ...armStyle(counted),
        lines: pairs.map(({ clean, attacked }, row) => [
          { x: clean, y: row },
          { x: attacked, y: row },
        ]),
        opacity: 0.55,
      },
      ...[...controls, 'clean' as const, counted].map(dotsOf),
    ],
  });
}

function shorten(promptId: string): string {
  const characters = Array.from(promptId);
  return characters.length > 16 ? `${characters.slice(0, 15).join('')}…` : promptId;
}

function drawRows(result: AuditResult, timings: AuditTimings, verdict: Verdict): Markup {
  return fragment`<h2>Attack and controls</h2>
<p class="lead">The attack counts only if it beats every row above it. The first columns hold the target to the clean
answer, token by token: the words are the same in every row, and only the drafts differ. “Free-running” columns show what
the target writes on its own.</p>
${result.drafters.map((drafter, index) => drawDrafter(drafter, timings, verdict.drafters[index]!))}`;
}

function drawDrafter(result: DrafterResult, timings: AuditTimings, verdict: DrafterVerdict): Markup {
  const { drafter, summary } = result;
  const title = fragment`<h3>${drafter} <span class="tag ${verdict.level}">${levelNames[verdict.level]}</span></h3>`;
  if (!verdict.audited)
    return fragment`<div class="card">${title}<p class="soft">${describeCounts(summary)}.</p></div>`;
  const draw = (columns: readonly RowColumn[], label: string): Markup =>
    tableHtml(
      {
        columns: ['row', ...columns],
        rows: summary.arms.map((row) => listCells(result, row, timings, columns)),
      },
      label,
      'rows',
    );
  return fragment`<div class="card">${title}
<p class="soft small">${keepTogether(`Along the clean answers the accepted length ${describeDrop(summary)}. One-sided paired Wilcoxon signed-rank tests over prompts: ${describeTests(summary, verdict)}. ${describeCounts(summary)}.`)}</p>
${draw(mainColumns, `Rows of ${drafter}`)}
<details class="more"><summary>More columns: ${detailColumns.map(({ name }) => name).join(', ')}</summary>
${draw(detailColumns, `More columns of ${drafter}`)}</details></div>`;
}

function listCells(
  result: DrafterResult,
  row: ArmSummary,
  timings: AuditTimings,
  columns: readonly RowColumn[],
): Row {
  const context = rowContext(result, row, timings);
  const isCounted = row.arm === countedArm(result.prompts);
  return {
    tone: isCounted ? 'attack' : undefined,
    meaning: armPurposes[row.arm],
    cells: [armLabels[row.arm], ...columns.map(({ cell }) => cell(row, context))],
  };
}
