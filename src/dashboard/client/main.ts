/** The page at work: hears the server, keeps what it heard, draws what the reader asked to see. */
import type { PageState } from '../../guard/metrics/page-state.js';
import type { Browser, PageElement } from './browser.js';
import { drawAction, drawAlert, announce } from './event-items.js';
import type { Filter } from './filter.js';
import { everything, listChoices, select } from './filter.js';
import { createKeptList } from './kept-list.js';
import { chartWidth, drawStream } from './length-chart.js';
import type { Memory } from './memory.js';
import { actionKey, askSince, mostEvents, remember } from './memory.js';
import type { Pen } from './pen.js';
import { createPen } from './pen.js';
import { startPolling } from './polling.js';
import { drawRequest } from './request-row.js';
import type { Connection, Notice } from './situation.js';
import { describeConnection, findNotice } from './situation.js';
import { readStored, startTheme, store } from './theme.js';
import { amountText, clockText } from './words.js';

/** Rows beyond these are counted but not drawn. */
export const mostRows = 200;
const keptKey = 'mistletoe-key';

export function start(browser: Browser): void {
  const { document, location } = browser;
  const pen = createPen(document);
  const part = (id: string): PageElement => document.getElementById(id)!;
  const lists = createLists(pen, part);
  let memory: Memory | null = null;
  let connection: Connection = { kind: 'opening' };
  let filter: Filter = everything;
  let key = readStored(() => browser.sessionStorage, keptKey) ?? '';

  const draw = (): void => {
    part('connection').textContent = describeConnection(connection);
    part('connection').setAttribute('class', `pill ${connection.kind}`);
    part('access').toggleAttribute('hidden', connection.kind !== 'locked');
    part('refusal').toggleAttribute('hidden', !(connection.kind === 'locked' && connection.wasRefused));
    showNotice(pen, part('notice'), findNotice(memory, connection, location.origin));
    part('content').toggleAttribute('hidden', memory === null);
    if (memory === null) return;
    showSetting(part, memory.state);
    showCounts(part, memory);
    showChoices(pen, part, memory, filter);
    lists.show(memory, filter);
  };

  startTheme(browser, part('theme'));
  const polling = startPolling({
    browser,
    url: `${location.pathname.replace(/\/+$/, '')}/api/state`,
    question: () => askSince(memory),
    key: () => key,
    hear(state) {
      memory = remember(memory, state);
      if (memory.newAlerts.length > 0) part('announcer').textContent = announce(memory.newAlerts);
    },
    say(next) {
      connection = next;
      draw();
    },
  });

  for (const name of ['model', 'tenant', 'verdict'] as const)
    part(`filter-${name}`).addEventListener('change', () => {
      filter = { ...filter, [name]: part(`filter-${name}`).value };
      draw();
    });
  browser.addEventListener('resize', draw);
  const pause = part('pause');
  pause.addEventListener('click', () => {
    const isPaused = pause.getAttribute('aria-pressed') !== 'true';
    pause.setAttribute('aria-pressed', String(isPaused));
    if (isPaused) polling.pause();
    else polling.wake();
  });
  part('access').addEventListener('submit', (event) => {
    event.preventDefault();
    key = part('key').value.trim();
    store(() => browser.sessionStorage, keptKey, key);
    polling.wake();
  });
}

type Find = (id: string) => PageElement;

function createLists(pen: Pen, part: Find): { show(memory: Memory, filter: Filter): void } {
  let nowMs = 0;
  let width = 0;
  const streams = createKeptList<PageState['streams'][number]>(part('streams'), {
    key: ({ model, route }) => JSON.stringify([model, route]),
    // The axis of time moves on also when nothing happens, but not every second.
    state: (stream) => JSON.stringify([stream, Math.floor(nowMs / 10_000), width]),
    draw: (stream) => drawStream(pen, stream, nowMs, width),
  });
  const requests = createKeptList<Memory['requests'][number]>(
    part('requests'),
    {
      key: ({ id }) => id,
      state: ({ verdict, endedMs }) => `${verdict.name} ${endedMs}`,
      draw: (request) => drawRequest(pen, request),
    },
    part('requests-head'),
  );
  const alerts = createKeptList<Memory['alerts'][number]>(part('alerts'), {
    key: ({ id }) => id,
    state: ({ text }) => text,
    draw: (alert) => drawAlert(pen, alert),
  });
  const actions = createKeptList<Memory['actions'][number]>(part('actions'), {
    key: actionKey,
    state: ({ text }) => text,
    draw: (action) => drawAction(pen, action),
  });
  return {
    show(memory, filter) {
      nowMs = memory.state.nowMs;
      const view = select(memory, filter);
      const rows = view.requests.slice(0, mostRows);
      width = chartWidth(part('streams').clientWidth, view.streams.length);
      streams.show(view.streams);
      requests.show(rows);
      alerts.show(view.alerts);
      actions.show(view.actions);
      part('shown').textContent =
        `${amountText(rows.length)} of ${amountText(memory.state.counts.requests)} requests shown`;
      const isEmpty = { streams: view.streams, requests: rows, alerts: view.alerts, actions: view.actions };
      for (const [name, items] of Object.entries(isEmpty))
        part(`no-${name}`).toggleAttribute('hidden', items.length > 0);
    },
  };
}

function showSetting(part: Find, { kind, upstream, version, startedMs }: PageState): void {
  part('name').textContent = kind === 'guard' ? 'Mistletoe guard' : 'Mistletoe server';
  part('upstream').textContent = upstream === null ? '' : `in front of ${upstream}`;
  part('version').textContent = `Mistletoe ${version}, up since ${clockText(startedMs)}`;
}

function showCounts(part: Find, { state, alerts }: Memory): void {
  const { requests, running, withoutTelemetry, failed } = state.counts;
  const rung = alerts.length >= mostEvents ? `${amountText(mostEvents)} or more` : amountText(alerts.length);
  const figures = { requests, running, withoutTelemetry, failed };
  for (const [name, count] of Object.entries(figures)) part(`count-${name}`).textContent = amountText(count);
  part('count-alerts').textContent = rung;
  part('count-alerts').setAttribute('class', alerts.length > 0 ? 'some' : 'none');
}

function showChoices(pen: Pen, part: Find, memory: Memory, filter: Filter): void {
  for (const [name, choices] of Object.entries(listChoices(memory, filter))) {
    const list = part(`filter-${name}`);
    const state = JSON.stringify(choices);
    if (list.getAttribute('data-choices') === state) continue;
    list.setAttribute('data-choices', state);
    const chosen = filter[name === 'model' ? 'model' : 'tenant'];
    const offer = (value: string, text: string): PageElement =>
      pen.html('option', { value, selected: value === chosen ? '' : null }, text);
    list.replaceChildren(offer('', 'all'), ...choices.map((choice) => offer(choice, choice)));
  }
}

function showNotice(pen: Pen, place: PageElement, notice: Notice | null): void {
  const state = JSON.stringify(notice);
  if (place.getAttribute('data-state') === state) return;
  place.setAttribute('data-state', state);
  if (notice === null) {
    place.replaceChildren();
    return;
  }
  const { tone, title, text, command } = notice;
  place.replaceChildren(
    pen.html(
      'div',
      { class: `notice ${tone}` },
      pen.html('b', {}, title),
      pen.html('p', {}, text),
      command === null ? null : pen.html('pre', {}, pen.html('code', {}, command)),
    ),
  );
}
