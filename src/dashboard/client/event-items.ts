/** Alarms and actions, each with its sentence. */
import type { ActionEvent, Alarm } from '../../guard/alarm.js';
import type { PageElement } from './browser.js';
import type { Pen } from './pen.js';
import { causeWords, changeWords, clockText, momentText, scopeWords } from './words.js';

export function drawAlarm(pen: Pen, alarm: Alarm): PageElement {
  return pen.html(
    'li',
    { class: `event ${alarm.cause}` },
    drawHead(pen, alarm.atMs, causeWords[alarm.cause], scopeWords[alarm.scope]),
    pen.html('p', {}, alarm.text),
    drawPlace(pen, [alarm.tenant, alarm.model, alarm.route, alarm.requestId]),
  );
}

export function drawAction(pen: Pen, event: ActionEvent): PageElement {
  return pen.html(
    'li',
    { class: `event ${event.change}` },
    drawHead(pen, event.atMs, event.action.replaceAll('-', ' '), changeWords[event.change]),
    pen.html('p', {}, event.text),
    drawPlace(pen, [event.tenant, event.model, event.requestId]),
  );
}

function drawHead(pen: Pen, atMs: number, tag: string, detail: string): PageElement {
  return pen.html(
    'div',
    { class: 'head' },
    pen.html('span', { class: 'tag' }, tag),
    pen.html('span', { class: 'soft' }, detail),
    pen.html('time', { datetime: momentText(atMs), title: momentText(atMs) }, clockText(atMs)),
  );
}

function drawPlace(pen: Pen, names: readonly (string | null)[]): PageElement | null {
  const known = names.filter((name) => name !== null && name !== '');
  return known.length === 0 ? null : pen.html('p', { class: 'place' }, known.join(' · '));
}

/** Read aloud when alarms come in; many at once are counted, not recited. */
export function announce(alarms: readonly Alarm[]): string {
  const [first] = alarms;
  if (first === undefined) return '';
  return alarms.length === 1
    ? `New alarm: ${first.text}`
    : `${alarms.length} new alarms. The last: ${first.text}`;
}
