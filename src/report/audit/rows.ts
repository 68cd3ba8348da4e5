/** Every row of every drafter: the attack, its controls and the prompts without a suffix. */
import type { AuditTimings } from '../../audit/arms/phase-clock.js';
import type { ArmSummary, AuditResult, DrafterResult } from '../../audit/result.js';
import { countedArm } from '../../audit/summary.js';
import type { KeptClass } from '../../measure/kept-class.js';
import { keptClasses } from '../../measure/kept-class.js';
import type { Markup } from '../markup.js';
import { fragment } from '../markup.js';
import { keepTogether } from '../page.js';
import type { Row } from '../table.js';
import { tableHtml } from '../table.js';
import {
  armLabels,
  armPurposes,
  describeCounts,
  describeDrop,
  describeTests,
  keptNames,
} from './audit-words.js';
import { levelNames } from './evidence.js';
import type { RowColumn } from './row-columns.js';
import { detailColumns, keptColumn, mainColumns, rowContext } from './row-columns.js';
import type { DrafterVerdict, Verdict } from './verdict.js';

export function drawRows(result: AuditResult, timings: AuditTimings, verdict: Verdict): Markup {
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
    cells: [
      armLabels[row.arm],
      ...columns.map((column) => {
        const cell = column.cell(row, context);
        const hasClasses = column === keptColumn && row.arm !== 'clean';
        return hasClasses ? { value: '', content: listClasses(row.kept) } : cell;
      }),
    ],
  };
}

/** Counts of the classes that have answers, each class whole on its line. */
export function listClasses(kept: Readonly<Record<KeptClass, number>>): Markup {
  const present = keptClasses.filter((name) => kept[name] > 0);
  const parts = present.map((name, index) => {
    const separator = index === present.length - 1 ? '' : ' · ';
    const label = name === 'task' ? 'same result' : name;
    return fragment`<span class="nowrap" title="${keptNames[name]}">${kept[name]} ${label}</span>${separator}`;
  });
  return fragment`<span class="classes">${parts}</span>`;
}
