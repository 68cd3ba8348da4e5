/** How a training run went, drawn along its updates. */
import * as Plot from '@observablehq/plot';
import { drawChart } from '../chart.js';
import type { Markup } from '../markup.js';
import { fragment } from '../markup.js';
import { acceptedLengthText, fixed, percentText } from '../../core/number-text.js';
import type { MeasuredLengths } from '../../train/training-result.js';
import { countedUpdates } from '../../train/training-result.js';
import type { Point, Series } from './training-series.js';
import { smoothSeries, thinSeries } from './training-series.js';
import type { LengthLine, UpdateLine } from '../../train/loop/training-log.js';

const frame = { height: 240, marginLeft: 52, marginTop: 30, marginBottom: 40, marginRight: 18 };
const along = { x: 'update', y: 'value' } as const;
const thick = { strokeWidth: 2.2, strokeLinecap: 'butt' } as const;

const updatesAxis = (series: Series): Plot.ScaleOptions => ({
  ...{ label: 'update →', domain: [0, series.at(-1)?.update ?? 1], ticks: 5 },
});

export function drawLoss(updates: readonly UpdateLine[]): Markup {
  const raw = updates.map(({ update, loss }): Point => ({ update, value: loss }));
  const smooth = smoothSeries(raw);
  return drawChart({
    description: `Loss of a learnt token over ${updates.length} updates, from ${ends(smooth)}.`,
    options: {
      ...frame,
      x: updatesAxis(raw),
      y: { label: '↑ loss of a token', grid: true, ticks: 5, zero: isNearZero(raw) },
      marks: [
        Plot.line(thinSeries(raw), {
          ...along,
          stroke: 'var(--accent)',
          strokeWidth: 1,
          strokeOpacity: 0.35,
        }),
        Plot.line(thinSeries(smooth), { ...along, ...thick, stroke: 'var(--accent)' }),
      ],
    },
  });
}

interface LineStyle {
  readonly name: string;
  readonly stroke: string;
  readonly dash: string;
}

const dashes = ['none', '7 3', '3 3', '9 3 2 3', '1.5 3'];

const levelStyle = (level: number): LineStyle => ({
  name: `token ${level + 1}`,
  stroke: level === 0 ? 'var(--accent)' : 'var(--ink)',
  dash: dashes[level % dashes.length]!,
});

/** Above a chart: names at the ends of lines would lie on each other. */
function drawKey(styles: readonly LineStyle[]): Markup {
  return fragment`<ul class="key">${styles.map(
    ({ name, stroke, dash }) =>
      fragment`<li><svg viewBox="0 0 24 12" aria-hidden="true"><path d="M0 6h24" stroke="${stroke}" stroke-width="2.2" stroke-dasharray="${dash}"/></svg>${name}</li>`,
  )}</ul>`;
}

/** One line for each level of a draft. Logs up to version 0.2 have no counts of rows; the label then says what is shown. */
export function drawLevels(updates: readonly UpdateLine[]): Markup {
  const counted = countedUpdates(updates);
  const shown = counted.length > 0 ? counted : updates;
  const unit = counted.length > 0 ? 'nats' : 'nats, divided by all learned tokens';
  const depth = shown[0]?.levels.length ?? 0;
  const levels = Array.from({ length: depth }, (_, level) => {
    const raw = shown
      .filter(({ levelRows }) => levelRows?.[level] !== 0)
      .map(({ update, levels: values }): Point => ({ update, value: values[level]! }));
    return { ...levelStyle(level), raw, smooth: smoothSeries(raw) };
  });
  const all = levels.flatMap(({ smooth }) => smooth);
  const chart = drawChart({
    description: `Cross-entropy of each drafted token. ${levels.map(({ name, smooth }) => `${name}: ${ends(smooth)}`).join('; ')}.`,
    options: {
      ...frame,
      x: updatesAxis(all),
      y: { label: `↑ cross-entropy (${unit})`, grid: true, ticks: 5, zero: isNearZero(all) },
      marks: levels.flatMap(({ name, stroke, dash, raw, smooth }) => [
        Plot.line(thinSeries(raw), { ...along, stroke, strokeWidth: 1, strokeOpacity: 0.14 }),
        Plot.line(thinSeries(smooth), {
          ...{ ...along, ...thick, stroke, strokeDasharray: dash, title: () => name },
        }),
      ]),
    },
  });
  return fragment`${drawKey(levels)}${chart}`;
}

export function drawLengthCurve(lengths: readonly LengthLine[], { first, best }: MeasuredLengths): Markup {
  const points = lengths.map(({ update, length }): Point => ({ update, value: length }));
  return drawChart({
    description: `Accepted length on held-out texts: ${acceptedLengthText(first.length)} before, at best ${acceptedLengthText(best.length)} after update ${best.update}.`,
    options: {
      ...frame,
      x: updatesAxis(points),
      y: { label: '↑ accepted length (tokens a step)', grid: true, ticks: 5, nice: true },
      marks: [
        Plot.ruleY([first.length], { stroke: 'var(--soft)', strokeWidth: 1.4, strokeDasharray: '7 4' }),
        Plot.line(thinSeries(points), { ...along, ...thick, stroke: 'var(--accent)' }),
        Plot.dot(points.length > 60 ? [] : points, {
          ...{ ...along, r: 3, fill: 'var(--accent)' },
          title: ({ update, value }: Point) => `after update ${update}: ${acceptedLengthText(value)}`,
        }),
        Plot.text([first.length], {
          ...{ y: (at: number) => at, text: () => 'before', frameAnchor: 'right', textAnchor: 'end' },
          ...{ dx: -4, dy: -8, fill: 'var(--soft)', stroke: 'var(--card)', strokeWidth: 4 },
        }),
      ],
    },
  });
}

interface Reached {
  readonly depth: number;
  readonly share: number;
}

export function drawReached({ first, best }: MeasuredLengths): Markup {
  const series = [
    { name: 'best', line: best, stroke: 'var(--accent)', dash: 'none', fill: 'var(--accent)' },
    { name: 'before', line: first, stroke: 'var(--soft)', dash: '6 3', fill: 'var(--card)' },
  ].map((one) => ({
    ...one,
    points: one.line.reached.map((share, index): Reached => ({ depth: index + 1, share })),
  }));
  const deepest = Math.max(2, first.reached.length);
  const told = series.map(
    ({ name, points }) => `${name}: ${points.map(({ share }) => percentText(share)).join(', ')}`,
  );
  const chart = drawChart({
    description: `Share of steps that accept the draft up to each depth. ${told.join('. ')}.`,
    options: {
      ...frame,
      x: {
        ...{ label: 'depth in the draft →', domain: [0.8, deepest + 0.2], tickFormat: 'd' },
        ticks: Array.from({ length: deepest }, (_, index) => index + 1),
      },
      y: { label: '↑ steps that accept it (%)', percent: true, domain: [0, 100], grid: true, ticks: 5 },
      marks: [
        Plot.ruleY([0], { stroke: 'var(--line)' }),
        ...series.flatMap(({ name, points, stroke, dash, fill }) => [
          Plot.line(points, { x: 'depth', y: 'share', ...thick, stroke, strokeDasharray: dash }),
          Plot.dot(points, {
            ...{ x: 'depth', y: 'share', r: 4, stroke, fill },
            title: ({ depth, share }: Reached) =>
              `${name}, depth ${depth}: ${percentText(share, 1)} of steps`,
          }),
        ]),
      ],
    },
  });
  return fragment`${drawKey(series)}${chart}`;
}

/** Learning rate and gradient norm share nothing but their updates: one small chart for each. */
export function drawPlain(
  updates: readonly UpdateLine[],
  { name, label }: { readonly name: 'rate' | 'norm'; readonly label: string },
): Markup {
  const points = updates.map((line): Point => ({ update: line.update, value: line[name] }));
  return drawChart({
    description: `${label.replace('↑ ', '')} over ${updates.length} updates, from ${ends(points)}.`,
    options: {
      ...{ ...frame, height: 190 },
      x: updatesAxis(points),
      y: { label, grid: true, ticks: 4, zero: true, tickFormat: (value: number) => shortNumber(value) },
      marks: [Plot.line(thinSeries(points), { ...along, stroke: 'var(--accent)', strokeWidth: 1.6 })],
    },
  });
}

/** 0.001, 2e-5 */
function shortNumber(value: number): string {
  return value !== 0 && Math.abs(value) < 1e-3
    ? value.toExponential(0)
    : String(Number(value.toPrecision(3)));
}

const ends = (series: Series): string =>
  `${fixed(series[0]?.value ?? NaN, 3)} to ${fixed(series.at(-1)?.value ?? NaN, 3)}`;

/** A chart that begins far above 0 would hide what happens. */
function isNearZero(series: Series): boolean {
  let [least, most] = [Infinity, -Infinity];
  for (const { value } of series) [least, most] = [Math.min(least, value), Math.max(most, value)];
  return least < 0.5 * most;
}
