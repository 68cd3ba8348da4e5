/** The report of an audit as one HTML file. */
import type { AuditTimings } from '../../audit/arms/phase-clock.js';
import type { AuditResult } from '../../audit/result.js';
import type { Verdict } from './verdict.js';
import { framePage } from '../page.js';
import { drawAnswers } from './answers.js';
import { drawBeyond } from './transfer.js';
import { drawCharts } from './audit-charts.js';
import { drawRows } from './rows.js';
import { drawSetup } from './setup.js';
import { describeOpening } from './verdict-card.js';

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
