/** Beyond one prompt and one drafter: suffixes carried to other drafters, and one suffix for many prompts. */
import type { AuditResult, TransferMatrix, UniversalResult, UniversalSplit } from '../../audit/result.js';
import {
  acceptedLengthText,
  changeText,
  countText,
  divergenceText,
  pValueText,
} from '../../core/number-text.js';
import type { Markup } from '../markup.js';
import { fragment } from '../markup.js';
import type { Chapter } from '../page.js';
import { listClasses } from './rows.js';

export function drawBeyond({ transfer, universal }: AuditResult): Chapter[] {
  const chapters: Chapter[] = [];
  if (transfer !== null) chapters.push({ id: 'transfer', name: 'Transfer', content: drawTransfer(transfer) });
  if (universal.length > 0) {
    chapters.push({ id: 'universal', name: 'Universal', content: drawUniversal(universal) });
  }
  return chapters;
}

function drawTransfer({ drafters, prompts, attacked, clean }: TransferMatrix): Markup {
  const cell = (row: number, column: number): Markup => {
    const value = attacked[row]?.[column] ?? NaN;
    const change = value / (clean[column] ?? NaN) - 1;
    const share = Number.isFinite(change) ? Math.min(0.75, Math.max(0, -change * 1.25)).toFixed(2) : '0';
    return fragment`<td class="heat" style="--share:${share}">${acceptedLengthText(value)}<br><span class="small">${changeText(change)}</span></td>`;
  };
  return fragment`<h2>Transfer</h2>
<p class="lead">Suffixes found on the drafter of a row, measured along the same clean answers on the drafter of a column:
tokens a step, and the change against no suffix. Both are pooled over the ${countText(prompts.length, 'prompt')} that
were audited on all drafters. Off the diagonal, the attacker did not need that drafter’s weights.</p>
<div class="card"><div class="scroll" tabindex="0" role="region" aria-label="Transfer matrix"><table class="matrix">
<thead><tr><th scope="col">found on ↓ measured on →</th>${drafters.map((drafter) => fragment`<th scope="col" style="text-align:center">${drafter}</th>`)}</tr></thead>
<tbody><tr class="clean"><th scope="row">no suffix</th>${clean.map((value) => fragment`<td style="text-align:center">${acceptedLengthText(value)}</td>`)}</tr>
${drafters.map((drafter, row) => fragment`<tr><th scope="row">${drafter}</th>${drafters.map((_, column) => cell(row, column))}</tr>`)}</tbody>
</table></div></div>`;
}

function drawUniversal(universal: readonly UniversalResult[]): Markup {
  return fragment`<h2>One suffix for many prompts</h2>
<p class="lead">Searched on the first set of prompts together, then measured along the clean answers of prompts it never
saw. A prompt in which the suffix is read as other tokens is counted apart.</p>
${universal.map(
  ({ drafter, suffix, trained, heldOut }) => fragment`<div class="card"><h3>${drafter}</h3>
<div class="asked">…<mark class="suffix">${suffix}</mark></div>
<div class="scroll" tabindex="0" role="region" aria-label="Universal suffix of ${drafter}"><table>
<thead><tr><th scope="col">prompts</th><th scope="col">no suffix<small>tokens a step</small></th><th scope="col">with it<small>tokens a step</small></th><th scope="col">change</th>
<th scope="col">answers<small>against the clean ones, by class</small></th><th scope="col">KL<small>nats a token</small></th><th scope="col">p<small>against no suffix</small></th><th scope="col">n<small>prompts</small></th><th scope="col">lost in text<small>prompts</small></th></tr></thead>
<tbody>${drawSplit('searched on', trained)}${heldOut === null ? null : drawSplit('held out', heldOut)}</tbody></table></div></div>`,
)}`;
}

function drawSplit(name: string, split: UniversalSplit): Markup {
  const { n, lostInText, cleanAcceptedLength, attackedAcceptedLength, divergence, kept, pValue } = split;
  return fragment`<tr><th scope="row">${name}</th><td>${acceptedLengthText(cleanAcceptedLength)}</td>
<td>${acceptedLengthText(attackedAcceptedLength)}</td><td>${changeText(attackedAcceptedLength / cleanAcceptedLength - 1)}</td>
<td>${listClasses(kept)}</td><td>${divergenceText(divergence)}</td><td>${pValueText(pValue).replace(/^p =? ?/, '')}</td><td>${n}</td><td>${lostInText}</td></tr>`;
}
