/**
 * The accepted length of one stream over time: a line through slices of time, behind it the band in which requests of
 * this kind are expected. Slices outside the band have a form of their own besides their colour.
 */
import type { StreamState } from '../../guard/metrics/page-state.js';
import { acceptedLengthText } from '../../core/number-text.js';
import type { PageElement } from './browser.js';
import type { Pen } from './pen.js';
import type { Scale } from './scale.js';
import { createScale, roundMarks, timeMarks } from './scale.js';
import { amountText, clockText } from './words.js';

type Slice = StreamState['history'][number];

const usualWidth = 460;
/** Between two cards, and what a card takes for its border and padding; as the style has them. */
const [gap, padding] = [18, 46];
const margin = { left: 30, right: 8, top: 10, bottom: 24 } as const;

interface Frame {
  readonly width: number;
  readonly height: number;
}

/**
 * Of one chart where so many share a place. A drawing that was made for another width would be stretched, and its text
 * with it.
 * @param placeWidth in pixels; nothing where nothing is laid out
 */
export function chartWidth(placeWidth: number | undefined, charts: number): number {
  if (placeWidth === undefined || !(placeWidth > 0)) return usualWidth;
  const fitting = Math.floor((placeWidth + gap) / (usualWidth + gap));
  const columns = Math.max(1, Math.min(charts, fitting));
  const card = (placeWidth - gap * (columns - 1)) / columns;
  return Math.max(200, 10 * Math.round((card - padding) / 10));
}

export function drawStream(
  pen: Pen,
  stream: StreamState,
  nowMs: number,
  width: number = usualWidth,
): PageElement {
  const latest = stream.history.findLast(({ acceptedLength }) => acceptedLength !== null);
  const standing = latest === undefined ? 'none' : standingOf(latest);
  return pen.html(
    'figure',
    { class: `card stream ${standing}` },
    pen.html(
      'figcaption',
      {},
      pen.html('h3', {}, stream.model, ' ', pen.html('small', {}, stream.route)),
      pen.html(
        'div',
        { class: 'now' },
        pen.html('b', {}, acceptedLengthText(latest?.acceptedLength ?? null)),
        pen.html('span', {}, describeExpectation(stream)),
      ),
    ),
    latest === undefined
      ? pen.html('p', { class: 'empty' }, 'No answer of this stream has told its accepted length yet.')
      : drawLengths(pen, stream, nowMs, width),
  );
}

export function drawLengths(
  pen: Pen,
  stream: StreamState,
  nowMs: number,
  width: number = usualWidth,
): PageElement {
  const { history, baseline } = stream;
  const { left, right, top, bottom } = margin;
  const height = Math.round(Math.min(240, Math.max(170, width / 4)));
  const time = createScale(findTimes(history, nowMs), [left, width - right]);
  const length = createScale([1, findHighest(stream)], [height - bottom, top]);
  return pen.svg(
    'svg',
    { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': describe(stream) },
    drawAxes(pen, time, length, { width, height }),
    pen.svg('path', { class: 'band', d: traceBand(history, time, length) }),
    baseline === null
      ? null
      : pen.svg('line', {
          class: 'middle',
          x1: left,
          x2: width - right,
          y1: round(length.place(baseline.middle)),
          y2: round(length.place(baseline.middle)),
        }),
    pen.svg('path', { class: 'line', d: traceLine(history, time, length) }),
    history.map((slice) => drawSlice(pen, slice, time, length)),
  );
}

export function describeExpectation({ baseline, learned }: StreamState): string {
  if (baseline === null) return `learning: ${amountText(learned)} requests so far`;
  const { low, high } = baseline;
  return `expected ${acceptedLengthText(low)} to ${acceptedLengthText(high)}, from ${amountText(learned)} requests`;
}

function describe(stream: StreamState): string {
  const known = stream.history.flatMap(({ acceptedLength }) => acceptedLength ?? []);
  const name = `Accepted length of ${stream.model} on ${stream.route}`;
  const below = stream.history.filter((slice) => standingOf(slice) === 'low').length;
  return (
    `${name}: ${acceptedLengthText(known.at(-1) ?? null)} now, ` +
    `between ${acceptedLengthText(Math.min(...known))} and ${acceptedLengthText(Math.max(...known))} ` +
    `in the time shown; ${describeExpectation(stream)}; ${below} slices of time below the band.`
  );
}

export function standingOf({ acceptedLength, low, high }: Slice): 'usual' | 'low' | 'high' | 'none' {
  if (acceptedLength === null) return 'none';
  if (low !== null && acceptedLength < low) return 'low';
  return high !== null && acceptedLength > high ? 'high' : 'usual';
}

/** Until now, so that silence is seen as a gap at the end. */
function findTimes(history: readonly Slice[], nowMs: number): [number, number] {
  const first = history[0]?.atMs ?? nowMs - 60_000;
  return [first, Math.max(nowMs, history.at(-1)?.atMs ?? nowMs, first + 1000)];
}

function findHighest({ history, baseline }: StreamState): number {
  const values = history.flatMap(({ acceptedLength, high }) => [acceptedLength ?? 1, high ?? 1]);
  return 1 + 1.08 * (Math.max(1.9, baseline?.high ?? 1, ...values.filter(Number.isFinite)) - 1);
}

function drawAxes(pen: Pen, time: Scale, length: Scale, { width, height }: Frame): PageElement {
  const { left, right, bottom } = margin;
  const { marks, step } = timeMarks(time, Math.max(2, Math.round(width / 115)));
  // The floor is always named: it is what a collapse falls to.
  const across = [1, ...roundMarks(length, 7).filter((mark) => mark > 1)].map((mark) => {
    const y = round(length.place(mark));
    return [
      pen.svg('line', { class: 'rule', x1: left, x2: width - right, y1: y, y2: y }),
      pen.svg('text', { x: left - 7, y: y + 4, 'text-anchor': 'end' }, String(mark)),
    ];
  });
  const along = marks
    .filter((mark) => time.place(mark) > left + 12 && time.place(mark) < width - right - 12)
    .map((mark) =>
      pen.svg(
        'text',
        { x: round(time.place(mark)), y: height - bottom + 17, 'text-anchor': 'middle' },
        clockText(mark, step < 60_000),
      ),
    );
  return pen.svg('g', { class: 'axes' }, across, along);
}

/** One shape for every run of slices that have a band. */
export function traceBand(history: readonly Slice[], time: Scale, length: Scale): string {
  const runs = splitRuns(history, ({ low, high }) => low !== null && high !== null);
  return runs
    .map((run) => {
      const at = (slice: Slice, value: number): string =>
        `${round(time.place(slice.atMs))} ${round(length.place(Math.max(1, value)))}`;
      const upper = run.map((slice) => at(slice, slice.high!));
      const lower = run.map((slice) => at(slice, slice.low!)).reverse();
      return `M${[...upper, ...lower].join('L')}Z`;
    })
    .join('');
}

/** A slice without requests breaks the line: nothing is drawn where nothing was seen. */
export function traceLine(history: readonly Slice[], time: Scale, length: Scale): string {
  return splitRuns(history, ({ acceptedLength }) => acceptedLength !== null)
    .map((run) =>
      run.map(
        ({ atMs, acceptedLength }) => `${round(time.place(atMs))} ${round(length.place(acceptedLength!))}`,
      ),
    )
    .map((points) => `M${points.join('L')}`)
    .join('');
}

function splitRuns(history: readonly Slice[], belongs: (slice: Slice) => boolean): Slice[][] {
  const runs: Slice[][] = [[]];
  for (const slice of history) {
    if (belongs(slice)) runs.at(-1)!.push(slice);
    else if (runs.at(-1)!.length > 0) runs.push([]);
  }
  return runs.filter((run) => run.length > 0);
}

function drawSlice(pen: Pen, slice: Slice, time: Scale, length: Scale): PageElement | null {
  const standing = standingOf(slice);
  if (slice.acceptedLength === null || standing === 'none') return null;
  const x = round(time.place(slice.atMs));
  const y = round(length.place(slice.acceptedLength));
  const shape = {
    usual: `M${x - 2.2} ${y}a2.2 2.2 0 1 0 4.4 0a2.2 2.2 0 1 0 -4.4 0z`,
    low: `M${x - 4} ${y - 4}h8v8h-8z`,
    high: `M${x} ${y - 5}l5 8.5h-10z`,
  }[standing];
  const words =
    `${clockText(slice.atMs)}: ${acceptedLengthText(slice.acceptedLength)} over ` +
    `${amountText(slice.requests)} requests, expected ${acceptedLengthText(slice.low)} to ${acceptedLengthText(slice.high)}`;
  return pen.svg('path', { class: `slice ${standing}`, d: shape }, pen.svg('title', {}, words));
}

const round = (place: number): number => Math.round(place * 10) / 10;
