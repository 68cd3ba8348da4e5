/** Beyond one prompt and one drafter: suffixes carried to other drafters, and one suffix for many prompts. */
import type { AuditResult, TransferMatrix, UniversalResult, UniversalSplit } from '../../audit/result.js';
import {
  acceptedLengthText,
  changeText,
  countText,
  divergenceText,
  pValueText,
} from '../../core/number-text.js';
import { type Cell, type Row, type Table, tableHtml } from '../table.js';
import { type Markup, fragment } from '../markup.js';
import type { Chapter } from '../page.js';
import { keptDigits, listClasses } from './audit-words.js';

export function drawBeyond({ transfer, universal }: AuditResult): Chapter[] {
  const chapters: Chapter[] = [];
  if (transfer !== null) chapters.push({ id: 'transfer', name: 'Transfer', content: drawTransfer(transfer) });
  if (universal.length > 0) {
    chapters.push({ id: 'universal', name: 'Universal', content: drawUniversal(universal) });
  }
  return chapters;
}

/** Accepted lengths; on the page, with their changes against no suffix. */
export function transferTable({ drafters, attacked, clean }: TransferMatrix): Table {
  const cell = (length: number, column: number): Cell => {
    const change = length / (clean[column] ?? NaN) - 1;
    const share = Number.isFinite(change) ? Math.min(0.75, Math.max(0, -change * 1.25)).toFixed(2) : '0';
    const value = acceptedLengthText(length);
    const content = fragment`<span class="heat" style="--share:${share}">${value} <small>${changeText(change)}</small></span>`;
    return { value, content };
  };
  return {
    columns: ['found on ↓ measured on →', ...drafters],
    rows: [
      { cells: ['no suffix', ...clean.map(acceptedLengthText)] },
      ...attacked.map((lengths, row) => ({
        cells: [drafters[row]!, ...lengths.map((length, column) => cell(length ?? NaN, column))],
      })),
    ],
  };
}

function drawTransfer(transfer: TransferMatrix): Markup {
  return fragment`<h2>Transfer</h2>
<p class="lead">Suffixes found on the drafter of a row, measured along the same clean answers on the drafter of a column:
tokens per step, and the change against no suffix. Both are pooled over the ${countText(transfer.prompts.length, 'prompt')} that
were audited on all drafters. Off the diagonal, the attacker did not need that drafter’s weights.</p>
<div class="card">${tableHtml(transferTable(transfer), 'Transfer matrix', 'matrix')}</div>`;
}

function drawUniversal(universal: readonly UniversalResult[]): Markup {
  return fragment`<h2>One suffix for many prompts</h2>
<p class="lead">Searched on the first set of prompts together, then measured along the clean answers of prompts it never
saw. Prompts in which the tokenizer splits the suffix differently are counted separately.</p>
${universal.map(
  (each) => fragment`<div class="card"><h3>${each.drafter}</h3>
<div class="asked">…<mark class="suffix">${each.suffix}</mark></div>
${tableHtml(universalTable(each), `Universal suffix of ${each.drafter}`)}</div>`,
)}`;
}

/** On the prompts that it was searched on, and on those it never saw. */
export function universalTable({ trained, heldOut }: UniversalResult): Table {
  return {
    columns: [
      'prompts',
      { name: 'no suffix', unit: 'tokens per step' },
      { name: 'with it', unit: 'tokens per step' },
      'change',
      { name: 'answers', unit: 'against the clean ones, by class' },
      { name: 'KL', unit: 'nats per token' },
      { name: 'p', unit: 'against no suffix' },
      { name: 'n', unit: 'prompts' },
      { name: 'tokenized differently', unit: 'prompts' },
    ],
    rows: [splitRow('searched on', trained), ...(heldOut === null ? [] : [splitRow('held out', heldOut)])],
  };
}

function splitRow(name: string, split: UniversalSplit): Row {
  const { n, lostInText, cleanAcceptedLength, attackedAcceptedLength, divergence, kept, pValue } = split;
  return {
    cells: [
      name,
      acceptedLengthText(cleanAcceptedLength),
      acceptedLengthText(attackedAcceptedLength),
      changeText(attackedAcceptedLength / cleanAcceptedLength - 1),
      { value: keptDigits(kept), content: listClasses(kept) },
      divergenceText(divergence),
      pValueText(pValue).replace(/^p =? ?/, ''),
      String(n),
      String(lostInText),
    ],
  };
}
