/** report.html and report.md of a hardening run, made from its result alone. */
import { join } from 'node:path';
import type { Markup } from '../markup.js';
import { fragment } from '../markup.js';
import { framePage } from '../page.js';
import { acceptedLengthText, changeText, percentText } from '../../core/number-text.js';
import { writeWhole } from '../audit/write-reports.js';
import { drawAuditLengths } from './hardening-charts.js';
import { judgeDrop } from '../../train/harden/hardening-comparison.js';
import {
  describeSubject,
  describeTimes,
  hardeningLimits,
  listFacts,
  renderHardeningMarkdown,
} from './hardening-markdown.js';
import type {
  AuditComparison,
  HardenedChange,
  HardeningResult,
} from '../../train/harden/hardening-result.js';
import {
  auditTitles,
  describeAudit,
  describeComparison,
  describeDrop,
  describeOutcome,
  describePrice,
  findChange,
  listRounds,
  listRows,
  resultColumns,
  resultLegend,
  roundColumns,
  roundLegend,
} from './hardening-words.js';

export interface HardeningReports {
  readonly html: string;
  readonly markdown: string;
}

/**
 * @example
 * if (outcome.status === 'complete') await writeHardeningReports(outcome.folder, outcome.result);
 */
export async function writeHardeningReports(
  folder: string,
  result: HardeningResult,
): Promise<HardeningReports> {
  const paths = { html: join(folder, 'report.html'), markdown: join(folder, 'report.md') };
  await writeWhole(paths.html, renderHardeningHtml(result));
  await writeWhole(paths.markdown, renderHardeningMarkdown(result));
  return paths;
}

export function renderHardeningHtml(result: HardeningResult): string {
  return framePage({
    title: `Mistletoe hardening of ${result.from.name} for ${result.target.name}`,
    brand: 'Mistletoe hardening',
    opening: { id: 'outcome', name: 'the outcome', content: drawOutcome(result) },
    chapters: [
      { id: 'audits', name: 'Audits', content: drawAudits(result) },
      { id: 'rounds', name: 'Rounds', content: drawRounds(result) },
      { id: 'setup', name: 'Setup', content: drawSetup(result) },
    ],
    imprint: `Mistletoe ${result.version} · ${result.schema}`,
  });
}

const tones = { smaller: 'robust', larger: 'collapsed', unclear: 'inconclusive', unknown: 'inconclusive' };

function drawOutcome(result: HardeningResult): Markup {
  const [fresh] = result.audits;
  const change = fresh === undefined ? undefined : findChange(fresh, 'hardened', 'before');
  return fragment`<div class="verdict ${tones[change === undefined ? 'unknown' : judgeDrop(change)]}" id="outcome">
<h1>${describeOutcome(result)}</h1>
<p class="headline">${describeSubject(result)}.</p>
${change === undefined ? null : fragment`<p class="meaning">${describeDrop(change)} ${describePrice(change)}</p>${drawFigures(change, fresh!)}`}
</div>`;
}

function drawFigures(change: HardenedChange, { rows }: AuditComparison): Markup {
  const { dropThen, dropNow, dropRatio, cleanLoss } = change;
  const arrow = fragment` <span class="arrow">→</span> `;
  const attacked = (index: number): string => acceptedLengthText(rows[index]?.attacked?.estimate ?? null);
  return fragment`<div class="figures">
<div><b>${dropRatio === null ? 'undefined' : percentText(dropRatio.estimate)}</b><span>of the drop before is left</span></div>
<div><b>${percentText(dropThen?.estimate ?? null)}${arrow}${percentText(dropNow?.estimate ?? null)}</b><span>drop under attack, before and hardened</span></div>
<div><b>${attacked(0)}${arrow}${attacked(1)}</b><span>attacked accepted length</span></div>
<div><b>${cleanLoss === null ? '–' : changeText(-cleanLoss.estimate, 1)}</b><span>clean accepted length</span></div>
</div>`;
}

function drawTable(
  columns: readonly string[],
  rows: readonly (readonly string[])[],
  classOf: (row: readonly string[]) => string,
): Markup {
  return fragment`<div class="scroll"><table><thead><tr>${columns.map((column) => fragment`<th>${column}</th>`)}</tr></thead>
<tbody>${rows.map(
    (row) =>
      fragment`<tr class="${classOf(row)}"><th>${row[0]}</th>${row.slice(1).map((cell) => fragment`<td>${cell}</td>`)}</tr>`,
  )}</tbody></table></div>`;
}

function drawAudits({ audits }: HardeningResult): Markup {
  return fragment`<h2>What the audits say</h2>
<p class="lead">Every drafter was searched anew, each against its own weights, on prompts, seeds and a suffix length that
training never saw.</p>
${audits.map(drawAudit)}
<p class="soft small">${resultLegend.map((line) => fragment`${line}<br>`)}</p>`;
}

function drawAudit(comparison: AuditComparison): Markup {
  const { audit } = comparison;
  return fragment`<div class="card"><h3>${auditTitles[audit]}</h3>
<p class="soft">${describeAudit(comparison)} · <a href="audits/${audit}/report.html">its own report</a></p>
${drawTable(resultColumns, listRows(comparison), ([name]) => (name === 'hardened' ? 'clean' : ''))}
<figure style="max-width:660px;margin-top:14px">${drawAuditLengths(comparison)}</figure>
${describeComparison(comparison).map((sentence) => fragment`<p>${sentence}</p>`)}</div>`;
}

function drawRounds(result: HardeningResult): Markup {
  return fragment`<h2>Round by round</h2>
<p class="lead">Each round searches suffixes against the drafter as it then is, lets the target answer behind them and trains
on these texts, mixed with clean ones.</p>
<div class="card">${drawTable(roundColumns, listRounds(result), () => '')}</div>
<p class="soft small">${roundLegend}</p>`;
}

function drawSetup(result: HardeningResult): Markup {
  return fragment`<h2>Data, settings and machine</h2>
<div class="card"><dl class="facts">${listFacts(result).map(([name, value]) => fragment`<dt>${name}</dt><dd>${value}</dd>`)}</dl>
<p class="soft small">In all ${describeTimes(result)}. The same request on the same machine gives the same drafters, byte for
byte, however often the run was interrupted.</p></div>
<div class="limits"><h3>What this report does not say</h3><ul>${hardeningLimits.map((limit) => fragment`<li>${limit}</li>`)}</ul></div>`;
}
