/** Alerts and actions, each with its sentence. */
import type { ActionEvent, Alert } from '../../guard/judge/verdict.js';
import type { PageElement } from './browser.js';
import type { Pen } from './pen.js';
import { causeWords, changeWords, clockText, momentText } from './words.js';

export function drawAlert(pen: Pen, alert: Alert): PageElement {
  return pen.html(
    'li',
    { class: `event ${alert.cause}` },
    drawHead(pen, alert.atMs, causeWords[alert.cause], alert.tenant === null ? 'all tenants' : 'one tenant'),
    pen.html('p', {}, alert.text),
    drawPlace(pen, [alert.tenant, alert.model, alert.route, alert.requestId]),
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

/** Read aloud when alerts come in; many at once are counted, not recited. */
export function announce(alerts: readonly Alert[]): string {
  const [first] = alerts;
  if (first === undefined) return '';
  return alerts.length === 1
    ? `New alert: ${first.text}`
    : `${alerts.length} new alerts. The last: ${first.text}`;
}
