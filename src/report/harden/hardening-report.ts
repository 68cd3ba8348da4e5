/** report.html and report.md of a hardening run, made from its result alone. */
import { join } from 'node:path';
import { changeText, fixed, percentText } from '../../core/number-text.js';
import type {
  AuditComparison,
  HardenedChange,
  HardeningResult,
} from '../../train/harden/hardening-result.js';
import { writeWhole } from '../audit/write-reports.js';
import { attackMark, cleanMark, drawIntervals } from '../interval-chart.js';
import type { Content, Markup } from '../markup.js';
import { fragment } from '../markup.js';
import type { Opening } from '../page.js';
import { drawFigure, framePage, rangeText } from '../page.js';
import { factsHtml, tableHtml } from '../table.js';
import {
  describeSubject,
  describeTimes,
  hardeningLimits,
  listFacts,
  renderHardeningMarkdown,
} from './hardening-markdown.js';
import {
  auditTable,
  auditTitles,
  describeAudit,
  describeComparison,
  describeDrop,
  describeOutcome,
  describePrice,
  findChange,
  judgeOutcome,
  resultLegend,
  roleNames,
  roundLegend,
  roundTable,
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
    opening: describeOpening(result),
    chapters: [
      { id: 'audits', name: 'Audits', content: drawAudits(result) },
      { id: 'rounds', name: 'Rounds', content: drawRounds(result) },
      { id: 'setup', name: 'Setup', content: drawSetup(result) },
    ],
    imprint: `Mistletoe ${result.version} · ${result.schema}`,
  });
}

const tones = {
  smaller: ['robust', 'Hardened'],
  larger: ['collapsed', 'Worse'],
  unclear: ['inconclusive', 'No gain shown'],
  unknown: ['inconclusive', 'Not compared'],
  'too few': ['inconclusive', 'Not decided'],
} as const;

function describeOpening(result: HardeningResult): Opening {
  const [fresh] = result.audits;
  const change = fresh === undefined ? undefined : findChange(fresh, 'hardened', 'before');
  const outcome = judgeOutcome(result);
  const [tone, label] = tones[outcome];
  return {
    id: 'outcome',
    tone,
    label,
    sentence: describeOutcome(result),
    picture: fresh === undefined ? null : drawLengths(fresh),
    details: fragment`<p class="meaning">${describeSubject(result)}. ${change === undefined ? null : [describeDrop(change), ' ', describePrice(change)]}</p>
${change === undefined ? null : drawFigures(change)}`,
  };
}

const drawLengths = ({ rows }: AuditComparison): Content =>
  drawIntervals(
    rows.map(({ role, clean, attacked }) => ({
      name: roleNames[role],
      marks: [
        ...(clean === null ? [] : [{ style: cleanMark, value: clean }]),
        ...(attacked === null ? [] : [{ style: attackMark, value: attacked }]),
      ],
    })),
  );

function drawFigures({ dropThen, dropNow, dropRatio, cleanLoss }: HardenedChange): Markup {
  const drop = (interval: typeof dropThen, label: string): Markup =>
    drawFigure(
      percentText(interval?.estimate ?? null),
      label,
      interval === null || interval.n < 2
        ? undefined
        : rangeText(fixed(100 * interval.low, 0), percentText(interval.high)),
    );
  return fragment`<div class="figures">
${drop(dropThen, 'drop under attack, before')}
${drop(dropNow, 'drop under attack, hardened')}
${dropRatio === null ? null : drop(dropRatio, 'of the drop before is left')}
${
  cleanLoss === null
    ? null
    : drawFigure(
        changeText(-cleanLoss.estimate, 1),
        'accepted length without an attack',
        cleanLoss.n < 2
          ? undefined
          : rangeText(fixed(-100 * cleanLoss.high, 1), changeText(-cleanLoss.low, 1)),
      )
}
</div>`;
}

function drawAudits({ audits }: HardeningResult): Markup {
  return fragment`<h2>Audits before and after</h2>
<p class="lead">Every drafter was attacked again, each against its own weights, with prompts, seeds and a suffix length that
training never saw.</p>
${audits.map(drawAudit)}
<p class="soft small">${resultLegend.map((line) => fragment`${line}<br>`)}</p>`;
}

function drawAudit(comparison: AuditComparison, index: number): Markup {
  const { audit } = comparison;
  return fragment`<div class="card"><h3>${auditTitles[audit]}</h3>
<p class="soft">${describeAudit(comparison)} · <a href="audits/${audit}/report.html">full report</a></p>
${tableHtml(auditTable(comparison), auditTitles[audit])}
${index === 0 ? null : fragment`<figure>${drawLengths(comparison)}</figure>`}
${describeComparison(comparison).map((sentence) => fragment`<p>${sentence}</p>`)}</div>`;
}

function drawRounds(result: HardeningResult): Markup {
  return fragment`<h2>Rounds of attack and training</h2>
<p class="lead">Each round searches suffixes against the current drafter, lets the target answer the prompts with these
suffixes, and trains on the answers mixed with clean ones.</p>
<div class="card">${tableHtml(roundTable(result), 'Rounds')}</div>
<p class="soft small">${roundLegend}</p>`;
}

function drawSetup(result: HardeningResult): Markup {
  return fragment`<h2>Data, settings and machine</h2>
<div class="card">${factsHtml(listFacts(result))}
<p class="soft small">In total ${describeTimes(result)}. The same request on the same machine gives the same drafters, byte for
byte, even if the run was interrupted.</p></div>
<div class="limits"><h3>Limits of this report</h3><ul>${hardeningLimits.map((limit) => fragment`<li>${limit}</li>`)}</ul></div>`;
}
