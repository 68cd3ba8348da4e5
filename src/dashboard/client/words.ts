/** How the page says things. */
import { acceptedLengthText, groupThousands } from '../../core/number-text.js';
import type { ActionEvent, AlertCause, VerdictName } from '../../guard/judge/verdict.js';
import type { ShownRequest } from '../../guard/metrics/page-state.js';
import type { Evidence } from '../../guard/observation.js';

export const verdictMeanings: Readonly<Record<VerdictName, string>> = {
  normal: 'within the baseline of this model and route',
  low: 'lower than nearly all requests of this model and route',
  collapsed: 'drafting cost more than it saved',
  learning: 'not collapsed, and the baseline is too young to rank it',
  unreadable: 'no draft counts to judge',
};

export const evidenceWords: Readonly<Record<Evidence, string>> = {
  reported: 'reported',
  derived: 'derived',
  estimated: 'estimate',
};

export const evidenceMeanings: Readonly<Record<Evidence, string>> = {
  reported: 'the engine counted steps and accepted draft tokens',
  derived: 'the engine counted tokens; the steps follow from them, up to steps without a draft',
  estimated: 'the engine reported nothing; tokens per chunk of the stream',
};

export const causeWords: Readonly<Record<AlertCause, string>> = {
  collapsed: 'collapsed',
  low: 'low',
  drift: 'drift',
  'drafter-down': 'drafter down',
};

export const changeWords: Readonly<Record<ActionEvent['change'], string>> = {
  applied: 'applied',
  lifted: 'lifted',
};

export const endingWords: Readonly<Record<ShownRequest['ending'], string>> = {
  complete: 'complete',
  'client-left': 'client left',
  'upstream-failed': 'upstream failed',
  refused: 'refused',
};

/** An estimate never looks like a count. */
export function lengthText({ acceptedLength, speculation }: ShownRequest): string {
  const text = acceptedLengthText(acceptedLength);
  return acceptedLength !== null && speculation?.evidence === 'estimated' ? `≈ ${text}` : text;
}

export const amountText = (count: number | null): string => (count === null ? '–' : groupThousands(count));

const twoDigits = (value: number): string => String(value).padStart(2, '0');

/** On the reader's clock. */
export function clockText(atMs: number, withSeconds = true): string {
  const at = new Date(atMs);
  const minutes = `${twoDigits(at.getHours())}:${twoDigits(at.getMinutes())}`;
  return withSeconds ? `${minutes}:${twoDigits(at.getSeconds())}` : minutes;
}

/** Unambiguous, for those who look twice. */
export function momentText(atMs: number): string {
  return Number.isFinite(atMs) && Math.abs(atMs) < 8.64e15 ? new Date(atMs).toISOString() : '–';
}
