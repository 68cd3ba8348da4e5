/** The table that everything rests on: every row of every drafter with its interval. */
import type { ArmSummary, AuditResult, AuditTimings, DrafterResult } from '../../../audit/result.js';
import { armLabels, armPurposes } from '../../arm-names.js';
import {
  acceptedLengthText,
  countText,
  divergenceText,
  fixed,
  percentText,
  perplexityText,
  pValueText,
  rateText,
  speedupText,
} from '../../number-text.js';
import { summariseTimings } from '../../timing-summary.js';
import type { Verdict } from '../../verdict.js';
import type { Markup } from '../markup.js';
import { fragment, nothing } from '../markup.js';
import { levelNames } from './verdict.js';

export function drawRows(result: AuditResult, timings: AuditTimings, verdict: Verdict): Markup {
  return fragment`<h2>Rows</h2>
<p class="lead">The attack counts only against the rows above it. Bars are 95 % bootstrap intervals over prompts;
speed is the median over prompts against plain decoding to the same length in the same process.</p>
${result.drafters.map((drafter, index) => drawDrafter(drafter, timings, verdict.drafters[index]?.level ?? 'inconclusive'))}`;
}

function drawDrafter(
  { drafter, summary }: DrafterResult,
  timings: AuditTimings,
  level: keyof typeof levelNames,
): Markup {
  const { drop, againstClean, againstRandom, promptsAudited, promptsSkipped } = summary;
  const counted = `${countText(promptsAudited, 'prompt')} audited, ${promptsSkipped} skipped`;
  const title = fragment`<h3>${drafter} <span class="tag ${level}">${levelNames[level]}</span></h3>`;
  if (promptsAudited === 0) return fragment`<div class="card">${title}<p class="soft">${counted}.</p></div>`;
  const longest = Math.max(1.5, ...summary.arms.map(({ meanAcceptedLength }) => meanAcceptedLength.high));
  return fragment`<div class="card">${title}
<p class="soft small">Drop ${percentText(drop.estimate, 1)} (${percentText(drop.low, 1)} to ${percentText(drop.high, 1)});
${pValueText(againstClean.pValue)} against no suffix (n = ${againstClean.n}),
${pValueText(againstRandom.pValue)} against random tokens (n = ${againstRandom.n}), Wilcoxon signed-rank, one-sided,
${againstClean.method}; ${counted}.</p>
<div class="scroll" tabindex="0" role="region" aria-label="Rows of ${drafter}"><table>
<thead><tr><th scope="col">row</th><th scope="col">accepted length</th><th scope="col" class="wide"><span class="hidden">interval, </span>1 to ${fixed(longest, 1)} tokens per step</th>
<th scope="col">speedup</th><th scope="col">tokens/s</th><th scope="col">KL (nats)</th><th scope="col">in bound</th>
<th scope="col">answer kept</th><th scope="col">first differ­ence</th><th scope="col">task agrees</th><th scope="col">answer perpl.</th>
<th scope="col">Rep-4</th><th scope="col">suffix perpl.</th><th scope="col">n</th></tr></thead>
<tbody>${summary.arms.map((row) => drawRow(row, drafter, timings, longest))}</tbody>
</table></div></div>`;
}

function drawRow(row: ArmSummary, drafter: string, timings: AuditTimings, longest: number): Markup {
  const { arm, meanAcceptedLength } = row;
  const { estimate, low, high, n } = meanAcceptedLength;
  const { speedup, tokensPerSecond } = summariseTimings(timings, drafter, arm);
  const tone = arm === 'attack' || arm === 'clean' ? arm : '';
  return fragment`<tr class="${tone}"><th scope="row" title="${armPurposes[arm]}">${armLabels[arm]}</th>
<td>${acceptedLengthText(estimate)} <span class="range">${acceptedLengthText(low)}–${acceptedLengthText(high)}</span></td>
<td>${drawInterval(row, longest)}</td>
<td>${speedupText(speedup)}</td><td>${rateText(tokensPerSecond)}</td>
<td>${divergenceText(row.divergence)}</td><td>${percentText(row.withinBound)}</td>
<td>${percentText(row.editSimilarity)}</td><td>${fixed(row.firstDifference, 0)}</td><td>${percentText(row.taskAgreement)}</td>
<td>${perplexityText(row.answerPerplexity)}</td><td>${percentText(row.repetition, 1)}</td>
<td>${perplexityText(row.suffixPerplexity)}</td><td>${n}</td></tr>`;
}

/** Position is a share of the way from 1, below which no accepted length can fall. */
function drawInterval({ meanAcceptedLength }: ArmSummary, longest: number): Markup {
  const { estimate, low, high } = meanAcceptedLength;
  if (![estimate, low, high].every(Number.isFinite)) return nothing;
  const place = (value: number): string => (((value - 1) / (longest - 1)) * 100).toFixed(1);
  const width = (((high - low) / (longest - 1)) * 100).toFixed(1);
  return fragment`<span class="interval" aria-hidden="true"><i style="left:${place(low)}%;width:${width}%"></i><b style="left:${place(estimate)}%"></b></span>`;
}
