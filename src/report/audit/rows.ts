/** The tables that everything rests on: every row of every drafter, with columns that explain themselves. */
import type { AuditTimings } from '../../audit/arms/phase-clock.js';
import type { ArmSummary, AuditResult, DrafterResult } from '../../audit/result.js';
import { countedArm } from '../../audit/summary.js';
import { largest } from '../../core/long-lists.js';
import { acceptedLengthText, fixed } from '../../core/number-text.js';
import type { KeptClass } from '../../measure/kept-class.js';
import { keptClasses } from '../../measure/kept-class.js';
import type { Content, Markup } from '../markup.js';
import { fragment, nothing } from '../markup.js';
import { armLabels, armPurposes } from './arm-names.js';
import { levelNames } from './levels.js';
import type { RowColumn } from './row-columns.js';
import { detailColumns, keptColumn, mainColumns, rowContext, sameAnswerColumn } from './row-columns.js';
import { describeCounts, describeDrop, describeTests, keptNames } from './test-text.js';
import type { DrafterVerdict, Verdict } from './verdict.js';

export function drawRows(result: AuditResult, timings: AuditTimings, verdict: Verdict): Markup {
  const lengths = result.drafters.flatMap(({ summary }) => summary.arms.map((row) => row.sameAnswer.high));
  const longest = largest(lengths.filter(Number.isFinite), 1.5);
  return fragment`<h2>Rows</h2>
<p class="lead">The attack counts only against the rows above it. The first columns hold the target to the clean
answer, token by token: the same words in every row, so that only the drafts differ. Beside them stands what the target
writes when it runs free.</p>
${result.drafters.map((drafter, index) => drawDrafter(drafter, { timings, longest, verdict: verdict.drafters[index]! }))}`;
}

interface DrafterContext {
  readonly timings: AuditTimings;
  readonly verdict: DrafterVerdict;
  /** One scale for all drafters. */
  readonly longest: number;
}

function drawDrafter(result: DrafterResult, context: DrafterContext): Markup {
  const { drafter, summary } = result;
  const { verdict, longest } = context;
  const title = fragment`<h3>${drafter} <span class="tag ${verdict.level}">${levelNames[verdict.level]}</span></h3>`;
  if (!verdict.audited)
    return fragment`<div class="card">${title}<p class="soft">${describeCounts(summary)}.</p></div>`;
  const bar = fragment`<th scope="col" class="bar"><span class="hidden">interval</span><small>1 to ${fixed(longest, 1)}</small></th>`;
  return fragment`<div class="card">${title}
<p class="soft small">${keepTogether(`Along the clean answers the accepted length ${describeDrop(summary)}. One-sided paired Wilcoxon signed-rank tests over prompts: ${describeTests(summary, verdict)}. ${describeCounts(summary)}.`)}</p>
<div class="scroll" tabindex="0" role="region" aria-label="Rows of ${drafter}"><table class="rows">
<thead><tr><th scope="col">row</th>${drawHead(sameAnswerColumn)}${bar}${mainColumns.map(drawHead)}</tr></thead>
<tbody>${summary.arms.map((row) => drawRow(result, row, context))}</tbody>
</table></div>
<details class="more"><summary>More columns: ${detailColumns.map(({ name }) => name).join(', ')}</summary>
<div class="scroll" tabindex="0" role="region" aria-label="More columns of ${drafter}"><table class="rows">
<thead><tr><th scope="col">row</th>${detailColumns.map(drawHead)}</tr></thead>
<tbody>${summary.arms.map((row) => drawLine(result, row, drawCells(result, row, { context, columns: detailColumns })))}</tbody>
</table></div></details></div>`;
}

/** The name, what it counts in a few words, and the whole sentence for whoever points at it. */
function drawHead({ name, unit, meaning }: RowColumn): Markup {
  return fragment`<th scope="col"><abbr title="${meaning}">${name}</abbr><small>${unit}</small></th>`;
}

function drawRow(result: DrafterResult, row: ArmSummary, context: DrafterContext): Markup {
  const { estimate, low, high } = row.sameAnswer;
  return drawLine(
    result,
    row,
    fragment`<td>${acceptedLengthText(estimate)} <span class="range">${acceptedLengthText(low)}–${acceptedLengthText(high)}</span></td>
<td class="bar">${drawInterval(row, context.longest)}</td>${drawCells(result, row, { context, columns: mainColumns })}`,
  );
}

function drawLine({ prompts }: DrafterResult, { arm }: ArmSummary, cells: Content): Markup {
  const tone = arm === countedArm(prompts) ? 'attack' : arm === 'clean' ? 'clean' : '';
  return fragment`<tr class="${tone}"><th scope="row" title="${armPurposes[arm]}">${armLabels[arm]}</th>${cells}</tr>`;
}

function drawCells(
  result: DrafterResult,
  row: ArmSummary,
  { context, columns }: { readonly context: DrafterContext; readonly columns: readonly RowColumn[] },
): Markup[] {
  const cells = rowContext(result, row, context.timings);
  return columns.map((column) => {
    const hasClasses = column === keptColumn && row.arm !== 'clean';
    return fragment`<td>${hasClasses ? listClasses(row.kept) : column.cell(row, cells)}</td>`;
  });
}

/** Position is a share of the way from 1, below which no accepted length can fall. */
function drawInterval({ sameAnswer }: ArmSummary, longest: number): Markup {
  const { estimate, low, high } = sameAnswer;
  if (![estimate, low, high].every(Number.isFinite)) return nothing;
  const place = (value: number): string => (((value - 1) / (longest - 1)) * 100).toFixed(1);
  const width = (((high - low) / (longest - 1)) * 100).toFixed(1);
  return fragment`<span class="interval" aria-hidden="true"><i style="left:${place(low)}%;width:${width}%"></i><b style="left:${place(estimate)}%"></b></span>`;
}

/** Small pieces of text that more than one part of the page shows. */
/** No line ends inside "p = 0.031" or "46 %". */
export function keepTogether(sentence: string): string {
  return sentence.replace(/(?<=\b[pn]) (?=[=<])|(?<=[=<]) | (?=%)/g, '\u00a0');
}

/** Counts by class, each class whole on its line; classes without an answer step back. */
export function listClasses(kept: Readonly<Record<KeptClass, number>>): Markup {
  const parts = keptClasses.map((name, index) => {
    const classes = kept[name] === 0 ? 'nowrap zero' : 'nowrap';
    const separator = index === keptClasses.length - 1 ? '' : ' · ';
    return fragment`<span class="${classes}" title="${keptNames[name]}">${kept[name]} ${name}</span>${separator}`;
  });
  return fragment`<span class="classes">${parts}</span>`;
}
