import { parseHTML } from 'linkedom';
import { describe, expect, it } from 'vitest';
import type { ParsedNode } from '../../../test/support/report/parse-document.js';
import { createRequest, createSampleState, createSpeculation, createVerdict, hostileName, sampleNowMs } from '../../../test/support/dashboard/sample-state.js'; // prettier-ignore
import type { PageDocument, PageElement } from './browser.js';
import { announce, drawAction, drawAlert } from './event-items.js';
import { chartWidth, drawLengths, drawStream, standingOf, traceBand, traceLine } from './length-chart.js';
import { createPen } from './pen.js';
import { drawRequest, listFacts } from './request-row.js';
import { createScale, roundMarks, timeMarks } from './scale.js';
import { drawBoxes, drawColumns, gatherColumns, listSteps, mostColumns, mostSteps } from './token-strip.js';
import { clockText } from './words.js';

const { document } = parseHTML('<html><body></body></html>') as unknown as { document: PageDocument };
const pen = createPen(document);
/** The same element as tests look at it. */
const look = (element: PageElement): ParsedNode & { readonly outerHTML: string } =>
  element as unknown as ParsedNode & { readonly outerHTML: string };
const count = (element: PageElement, selector: string): number =>
  look(element).querySelectorAll(selector).length;
const state = createSampleState();

describe('the pen', () => {
  it('makes text of text, and shows what cannot be seen', () => {
    const drawn = look(
      pen.html('p', { title: hostileName }, hostileName, 7, null, ['a', pen.html('b', {}, 'c')]),
    );
    expect(drawn.querySelectorAll('img, script, td')).toHaveLength(0);
    expect(drawn.textContent).toBe(`${hostileName.replace('\u202e', '⟨U+202E⟩')}7ac`);
    expect(drawn.getAttribute('title')).toContain('⟨U+202E⟩');
  });
});

describe('scales', () => {
  it('place values, also where there is one alone', () => {
    expect(createScale([1, 5], [100, 0]).place(2)).toBe(75);
    expect(createScale([3, 3], [0, 10]).place(3)).toBe(5);
  });

  it.each([
    [1, 4.4, 5, [1, 2, 3, 4]],
    [1, 2, 6, [1, 1.2, 1.4, 1.6, 1.8, 2]],
    [0, 0.3, 4, [0, 0.1, 0.2, 0.3]],
    [1, 17, 5, [5, 10, 15]],
    [2, 2, 5, [2]],
  ])('mark %d to %d with at most %d: %j', (from, to, most, marks) => {
    expect(roundMarks(createScale([from, to], [0, 1]), most)).toEqual(marks);
  });

  it('mark moments at which the clock of the reader reads round', () => {
    const { marks, step } = timeMarks(createScale([sampleNowMs, sampleNowMs + 15 * 60_000], [0, 1]), 5);
    expect(step).toBe(5 * 60_000);
    expect(marks.map((mark) => clockText(mark).slice(-4))).toEqual(['5:00', '0:00', '5:00']);
    const days = timeMarks(createScale([sampleNowMs, sampleNowMs + 9 * 86_400_000], [0, 1]), 5);
    expect(days.marks.map((mark) => clockText(mark))).toEqual(days.marks.map(() => '00:00:00'));
  });
});

describe('the chart of a stream', () => {
  const [attacked, usual, , young] = state.streams;

  it('has a band, a middle, a line with gaps, and forms for what lies outside', () => {
    const drawn = drawLengths(pen, attacked!, state.nowMs);
    const outside = attacked!.history.filter((slice) => standingOf(slice) === 'low').length;
    expect(outside).toBeGreaterThan(10);
    expect(count(drawn, '.slice.low')).toBe(outside);
    expect(count(drawn, '.slice.high')).toBe(1);
    expect(count(drawn, '.slice')).toBe(57);
    expect(count(drawn, '.band, .middle, .line')).toBe(3);
    expect(look(drawn).querySelector('.line')?.getAttribute('d')?.match(/M/g)).toHaveLength(2);
    expect(look(drawn).getAttribute('aria-label')).toMatch(
      /^Accepted length of llama-3\.1-70b on \/v1\/chat\/completions: 1\.08 now, .* expected 2\.30 to 3\.65/,
    );
  });

  it('stays inside its frame whatever the numbers are', () => {
    const wild = usual!.history.map((slice, index) => ({
      ...slice,
      acceptedLength: index === 3 ? 17 : 1,
      low: 0.2,
    }));
    const drawn = drawLengths(pen, { ...usual!, history: wild }, state.nowMs);
    const places = [...look(drawn).querySelectorAll('path')].flatMap((path) =>
      [...(path.getAttribute('d') ?? '').matchAll(/[ML](-?[\d.]+) (-?[\d.]+)/g)].map(([, x, y]) => [
        Number(x),
        Number(y),
      ]),
    );
    expect(places.length).toBeGreaterThan(100);
    for (const [x, y] of places) {
      expect(x).toBeGreaterThanOrEqual(0);
      expect(x).toBeLessThanOrEqual(460);
      expect(y).toBeGreaterThanOrEqual(0);
      expect(y).toBeLessThanOrEqual(170);
    }
    expect(look(drawn).outerHTML).not.toMatch(/NaN|Infinity/);
  });

  it.each([
    // One card for all of it, cards of two columns, a phone; nothing is laid out.
    [1224, 1, 1180],
    [1224, 2, 560],
    [1224, 5, 560],
    [358, 3, 310],
    [0, 3, 460],
    [undefined, 1, 460],
  ])('in %s pixels, one of %i is drawn %i wide', (place, charts, expected) => {
    const width = chartWidth(place, charts);
    expect(width).toBe(expected);
    const drawn = look(drawLengths(pen, usual!, state.nowMs, width));
    expect(drawn.getAttribute('viewBox')).toMatch(new RegExp(`^0 0 ${width} `));
    const texts = [...drawn.querySelectorAll('.axes text')].map((text) => Number(text.getAttribute('x')));
    expect(Math.max(...texts)).toBeLessThan(width);
    expect(texts.filter((x) => x > 30).length).toBeGreaterThan(width > 1000 ? 6 : 1);
  });

  it('traces runs apart', () => {
    const scale = createScale([0, 10], [0, 10]);
    const at = (atMs: number, acceptedLength: number | null) => ({ atMs, acceptedLength, requests: 1, low: acceptedLength, high: acceptedLength }); // prettier-ignore
    const history = [at(0, null), at(1, 2), at(2, 3), at(3, null), at(4, 5)];
    expect(traceLine(history, scale, scale)).toBe('M1 2L2 3M4 5');
    expect(traceBand(history, scale, scale)).toBe('M1 2L2 3L2 3L1 2ZM4 5L4 5Z');
    expect(traceLine([], scale, scale) + traceBand([], scale, scale)).toBe('');
  });

  it('says that it still learns, and what is expected once it has', () => {
    expect(look(drawStream(pen, young!, state.nowMs)).textContent).toContain('learning: 7 requests so far');
    expect(count(drawStream(pen, young!, state.nowMs), 'svg')).toBe(0);
    const drawn = look(drawStream(pen, attacked!, state.nowMs));
    expect(drawn.getAttribute('class')).toContain('low');
    expect(drawn.querySelector('.now b')?.textContent).toBe('1.08');
  });
});

describe('the strip of an answer', () => {
  const speculation = {
    ...createSpeculation(1, 2, 3),
    perStepAccepted: [2, 0, 5],
    perStepProposed: [5, 5, 5],
  };

  it('has a box for every token, by how it came about', () => {
    const drawn = drawBoxes(pen, listSteps(speculation)!);
    expect([...look(drawn).querySelectorAll('.step')].map((step) => [...step.querySelectorAll('span')].map((box) => box.getAttribute('class')).join(''))).toEqual(['aar', 'r', 'aaaaab']); // prettier-ignore
    expect(look(drawn).getAttribute('aria-label')).toBe(
      '3 steps with 7 accepted draft tokens; in 1 of them no draft token was accepted',
    );
  });

  it('counts the depth of a tree, not its tokens, and is absent where steps were not told', () => {
    const tree = { ...speculation, isTree: true, perStepProposed: [60, 60, 60], draftLength: 6 };
    expect(listSteps(tree)!.map(({ proposed }) => proposed)).toEqual([6, 6, 6]);
    expect(listSteps({ ...speculation, perStepProposed: null, draftLength: null })!.map(({ proposed }) => proposed)).toEqual([2, 0, 5]); // prettier-ignore
    expect(listSteps({ ...speculation, perStepAccepted: null })).toBeNull();
    expect(listSteps({ ...speculation, perStepAccepted: [] })).toBeNull();
  });

  it('gathers steps of long answers without losing any', () => {
    const steps = Array.from({ length: 1001 }, (_, index) => ({ accepted: index % 3, proposed: 5 }));
    const columns = gatherColumns(steps);
    expect(columns.length).toBeLessThanOrEqual(mostColumns);
    const each = Math.ceil(steps.length / mostColumns);
    const sizes = columns.map((_, index) => Math.min(each, steps.length - index * each));
    const total = columns.reduce((sum, column, index) => sum + column.accepted * sizes[index]!, 0);
    expect(total).toBeCloseTo(
      steps.reduce((sum, { accepted }) => sum + accepted, 0),
      6,
    );
    expect(count(drawBoxes(pen, steps), '.step')).toBe(mostSteps);
    expect(look(drawBoxes(pen, steps)).textContent).toBe('and 601 further steps');
  });

  it('draws a column for each step, the rejected part above the accepted one', () => {
    const drawn = look(drawColumns(pen, listSteps(speculation)!));
    expect(drawn.querySelector('.accepted')?.getAttribute('d')).toBe('M0 21h3V12.6h-3zM8 21h3V0h-3z');
    expect(drawn.querySelector('.rejected')?.getAttribute('d')).toBe('M0 12.6h3V0h-3zM4 21h3V0h-3z');
  });
});

describe('a row of the table', () => {
  it('labels an estimate as one', () => {
    const whole = createSpeculation(1, 2, 30);
    const speculation = { ...whole, evidence: 'estimated' as const, perStepAccepted: null };
    const cells = [...look(drawRequest(pen, createRequest(1, { speculation, acceptedLength: 2.5, verdict: createVerdict('normal') }))).querySelectorAll('th, td')]; // prettier-ignore
    expect(cells.map(({ textContent }) => textContent)).toEqual([clockText(sampleNowMs - 1700), 'acme', 'llama-3.1-70b', '180', '≈ 2.50', 'normal', 'speculative', 'estimate', '–']); // prettier-ignore
  });

  it('keeps names of strangers text', () => {
    const drawn = drawRequest(
      pen,
      createRequest(1, { tenant: hostileName, model: hostileName, id: hostileName }),
    );
    expect(count(drawn, 'img, script')).toBe(0);
    expect(look(drawn).querySelector('td.name')?.textContent).toContain('<img src=x');
  });

  it('opens and closes', () => {
    const body = drawRequest(pen, createRequest(1, { speculation: createSpeculation(1, 2, 30), ending: 'client-left' })); // prettier-ignore
    const button = look(body).querySelector('button') as unknown as PageElement & { click(): void };
    expect(count(body, 'tr')).toBe(1);
    button.click();
    expect(button.getAttribute('aria-expanded')).toBe('true');
    expect(count(body, 'tr.opened .step')).toBe(30);
    expect(look(body).querySelector('.facts')?.textContent).toContain('client left, status 200, streamed');
    button.click();
    expect(button.getAttribute('aria-expanded')).toBe('false');
    expect(count(body, 'tr')).toBe(1);
  });

  it('tells what is not known', () => {
    const facts = new Map(listFacts(createRequest(1, { promptTokens: null, completionTokens: null, firstByteMs: null }))); // prettier-ignore
    expect(facts.get('tokens')).toBe('– in, – out');
    expect(facts.get('time')).toBe('3.1 s');
    expect(facts.get('speculation')).toMatch(/said nothing/);
  });
});

describe('alerts and actions', () => {
  it('carry their sentence, cause, scope and place', () => {
    const [alert] = state.alerts;
    expect(look(drawAlert(pen, alert!)).textContent).toBe(
      `collapsedone tenant${clockText(alert!.atMs)}${alert!.text}crawler-7 · llama-3.1-70b · /v1/chat/completions · chatcmpl-00024`,
    );
    const [action] = state.actions;
    expect(look(drawAction(pen, action!)).textContent).toContain(`plain upstreamlifted`);
  });

  it('are announced, many at once by their number', () => {
    expect(announce([])).toBe('');
    expect(announce(state.alerts.slice(0, 1))).toBe(`New alert: ${state.alerts[0]!.text}`);
    expect(announce(state.alerts)).toMatch(/^3 new alerts\. The last: Drafting did not pay/);
  });
});
