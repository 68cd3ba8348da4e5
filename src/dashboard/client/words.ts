/** How the page says things. */
import { acceptedLengthText, groupThousands } from '../../core/number-text.js';
import type { ActionEvent, AlarmCause, AlarmScope } from '../../guard/alarm.js';
import type { ShownRequest, Verdict } from '../../guard/page-state.js';
import type { Evidence } from '../../guard/request-record.js';

export const verdictMeanings: Readonly<Record<Verdict, string>> = {
  usual: 'inside what requests of this kind lead to expect',
  low: 'fewer draft tokens accepted than requests of this kind lead to expect',
  high: 'more draft tokens accepted than usual, as when an answer repeats itself',
  unknown: 'nothing to compare, or nothing to compare with yet',
};

export const evidenceWords: Readonly<Record<Evidence, string>> = {
  reported: 'reported',
  derived: 'derived',
  estimated: 'estimate',
};

export const evidenceMeanings: Readonly<Record<Evidence, string>> = {
  reported: 'the engine counted steps and accepted draft tokens',
  derived: 'the engine counted tokens; the steps follow from them, up to steps without a draft',
  estimated: 'the engine said nothing; read off the stream, from the tokens of a chunk and the gaps between',
};

export const causeWords: Readonly<Record<AlarmCause, string>> = {
  collapse: 'collapse',
  'drafter-down': 'drafter down',
  repetition: 'repetition',
  'hard-text': 'hard text',
};

export const scopeWords: Readonly<Record<AlarmScope, string>> = {
  request: 'one request',
  tenant: 'one tenant',
  everyone: 'everyone',
};

export const changeWords: Readonly<Record<ActionEvent['change'], string>> = {
  taken: 'taken',
  lifted: 'lifted',
  probed: 'probed',
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
