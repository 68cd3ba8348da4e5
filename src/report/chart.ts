/**
 * Charts as inline SVG. Positions are percentages of the plot and text is in pixels, so a chart fills its card at any
 * width while its text keeps the size of the page. Colors are variables of the page's theme.
 */
import { largest } from '../core/vector.js';
import { acceptedLengthText, percentText } from '../core/number-text.js';
import type { Interval } from '../measure/statistics.js';
import { type Content, type Markup, fragment } from './markup.js';
import { cellText, hasInterval, intervalCell } from './table.js';

export type MarkSymbol = 'circle' | 'square' | 'triangle' | 'diamond' | 'plus' | 'times' | 'asterisk';

export interface MarkStyle {
  readonly name: string;
  readonly color: string;
  readonly dash?: string | undefined;
  readonly symbol?: MarkSymbol | undefined;
  readonly filled?: boolean | undefined;
}

export interface Point {
  readonly x: number;
  readonly y: number;
  /** Shown while the pointer is over the dot. */
  readonly title?: string;
}

export interface Series extends MarkStyle {
  readonly lines?: readonly (readonly Point[])[];
  readonly dots?: readonly Point[];
  readonly width?: number;
  readonly opacity?: number;
}

export interface Axis {
  readonly label?: string;
  /** First value at the left or the bottom. */
  readonly domain: readonly [number, number];
  /** Evenly spaced round numbers where absent. */
  readonly ticks?: readonly { readonly at: number; readonly text: string }[];
}

export interface Level {
  readonly value: number;
  readonly name: string;
}

interface Chart {
  /** Read aloud in place of the drawing. */
  readonly description: string;
  /** Of the plot without its labels, in pixels. */
  readonly height: number;
  readonly x: Axis;
  readonly y: Axis;
  readonly series: readonly Series[];
  /** Dashed horizontal lines to compare with. */
  readonly levels?: readonly Level[];
  /** Styles to explain above the chart. */
  readonly key?: readonly MarkStyle[] | undefined;
}

export function drawChart({ description, height, x, y, series, levels = [], key }: Chart): Markup {
  const across = (value: number): string => percent((value - x.domain[0]) / (x.domain[1] - x.domain[0]));
  const down = (value: number): string => percent(1 - (value - y.domain[0]) / (y.domain[1] - y.domain[0]));
  const [xTicks, yTicks] = [x.ticks ?? roundTicks(x.domain), y.ticks ?? roundTicks(y.domain)];
  const widths = yTicks.map(({ text }) => Array.from(text).length);
  const left = 14 + 7.2 * largest(widths, 2);
  return fragment`${key === undefined ? null : drawKey(key)}${y.label === undefined ? null : fragment`<p class="axis">${y.label}</p>`}
<svg class="plot" role="img" aria-label="${description}" style="height:${height}px;--left:${left.toFixed(0)}px">
${yTicks.map(({ at, text }) => fragment`<line class="grid" x1="0" x2="100%" y1="${down(at)}" y2="${down(at)}"/><text class="tick" x="-8" y="${down(at)}" dy=".34em" text-anchor="end">${text}</text>`)}
${xTicks.map(({ at, text }) => fragment`<text class="tick" x="${across(at)}" y="100%" dy="18" text-anchor="middle">${text}</text>`)}
<line class="base" x1="0" x2="100%" y1="100%" y2="100%"/>
${levels.map(({ value }) => fragment`<line class="level" x1="0" x2="100%" y1="${down(value)}" y2="${down(value)}"/>`)}
<svg viewBox="0 0 1000 1000" preserveAspectRatio="none" width="100%" height="100%" overflow="visible">${series.map((each) => drawLines(each, x.domain, y.domain))}</svg>
${series.map(({ dots = [], ...style }) =>
  dots
    .filter(isFinitePoint)
    .map(
      (dot) =>
        fragment`<svg x="${across(dot.x)}" y="${down(dot.y)}" overflow="visible">${drawSymbol(style)}${dot.title === undefined ? null : fragment`<title>${dot.title}</title>`}</svg>`,
    ),
)}
${levels.map(({ value, name }) => fragment`<text class="level" x="100%" y="${down(value)}" dx="-4" dy="-6" text-anchor="end">${name}</text>`)}
</svg>${x.label === undefined ? null : fragment`<p class="axis">${x.label}</p>`}`;
}

const percent = (share: number): string => `${(100 * share).toFixed(2)}%`;

const isFinitePoint = ({ x, y }: Point): boolean => Number.isFinite(x) && Number.isFinite(y);

function drawLines(
  { lines = [], color, dash = 'none', width = 2.2, opacity = 1 }: Series,
  [left, right]: Axis['domain'],
  [bottom, top]: Axis['domain'],
): Content {
  const place = ({ x, y }: Point): string =>
    `${((1000 * (x - left)) / (right - left)).toFixed(1)} ${(1000 - (1000 * (y - bottom)) / (top - bottom)).toFixed(1)}`;
  return lines
    .map((line) => line.filter(isFinitePoint))
    .filter(({ length }) => length > 1)
    .map(
      (line) =>
        fragment`<path d="M${line.map(place).join('L')}" fill="none" stroke="${color}" stroke-width="${width}" stroke-opacity="${opacity}" stroke-dasharray="${dash}" stroke-linejoin="round" vector-effect="non-scaling-stroke"/>`,
    );
}

/** Around the origin, about 9 pixels across. */
const outlines: Readonly<Record<MarkSymbol, string>> = {
  circle: 'M0-4.2a4.2 4.2 0 1 0 .01 0z',
  square: 'M-4-4h8v8h-8z',
  triangle: 'M0-5l4.8 8.4h-9.6z',
  diamond: 'M0-5.4l4 5.4-4 5.4-4-5.4z',
  plus: 'M0-5v10M-5 0h10',
  times: 'M-4-4l8 8M4-4l-8 8',
  asterisk: 'M0-5v10M-4.3-2.5l8.6 5M4.3-2.5l-8.6 5',
};

function drawSymbol({ color, symbol = 'circle', filled = false }: Omit<MarkStyle, 'name'>): Markup {
  return fragment`<path d="${outlines[symbol]}" fill="${filled ? color : 'var(--card)'}" stroke="${color}" stroke-width="1.5"/>`;
}

export function drawKey(styles: readonly MarkStyle[]): Markup {
  return fragment`<ul class="key">${styles.map((style) => {
    const { name, color, dash = 'none', symbol } = style;
    const sample =
      symbol === undefined
        ? fragment`<path d="M-12 0h24" stroke="${color}" stroke-width="2.2" stroke-dasharray="${dash}"/>`
        : drawSymbol(style);
    return fragment`<li><svg viewBox="-12 -6 24 12" aria-hidden="true">${sample}</svg>${name}</li>`;
  })}</ul>`;
}

/** About four ticks, at multiples of 1, 2 or 5 times a power of ten. */
function roundTicks([from, to]: Axis['domain']): { at: number; text: string }[] {
  const rough = Math.abs(to - from) / 4;
  if (!(rough > 0)) return [];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5].find((factor) => factor * power >= rough * 0.999) ?? 10);
  const first = Math.ceil(Math.min(from, to) / step - 1e-9);
  const count = Math.floor(Math.max(from, to) / step + 1e-9) - first + 1;
  return Array.from({ length: count }, (_, index) => {
    const at = (first + index) * step;
    const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    return { at, text: digits > 4 ? at.toExponential(0) : at.toFixed(digits) };
  });
}

interface DepthShares {
  readonly style: MarkStyle;
  /** [depth - 1] */
  readonly shares: readonly number[];
}

export function drawDepths(
  title: string,
  deepest: number,
  rows: readonly DepthShares[],
  hasKey = false,
): Markup {
  const present = rows.filter(({ shares }) => shares.length > 0);
  const series = present.map(({ style, shares }) => {
    const dots = shares.map((share, index) => ({
      x: index + 1,
      y: 100 * share,
      title: `${style.name}, depth ${index + 1}: ${percentText(share, 1)} of steps`,
    }));
    return { ...style, lines: [dots], dots };
  });
  const spoken = present.map(
    ({ style, shares }) => `${style.name}: ${shares.map((share) => percentText(share)).join(', ')}.`,
  );
  return drawChart({
    description: `${title} ${spoken.join(' ')}`,
    height: 190,
    x: {
      label: 'depth in the draft →',
      domain: [0.8, deepest + 0.2],
      ticks: Array.from({ length: deepest }, (_, index) => ({ at: index + 1, text: String(index + 1) })),
    },
    y: { label: '↑ steps that accept it (%)', domain: [0, 100] },
    key: hasKey ? present.map(({ style }) => style) : undefined,
    series,
  });
}

/** Accepted lengths with their intervals, one line for each thing compared: the picture at the top of a page. */
export const cleanMark: MarkStyle = {
  name: 'no suffix',
  color: 'var(--accent)',
  symbol: 'circle',
  filled: true,
};
export const attackMark: MarkStyle = {
  name: 'under attack',
  color: 'var(--attack)',
  symbol: 'square',
  filled: true,
};

export interface IntervalRow {
  readonly name: string;
  /** Drawn from top to bottom within the row. */
  readonly marks: readonly { readonly style: MarkStyle; readonly value: Interval }[];
}

/** Nothing where no value is known. */
export function drawIntervals(rows: readonly IntervalRow[]): Content {
  const known = rows
    .map(({ name, marks }) => ({ name, marks: marks.filter(({ value }) => Number.isFinite(value.estimate)) }))
    .filter(({ marks }) => marks.length > 0);
  if (known.length === 0) return null;
  const all = known.flatMap(({ marks }) => marks);
  const styles = [...new Map(all.map(({ style }) => [style.name, style])).values()];
  const describe = (name: string, { style, value }: IntervalRow['marks'][number]): string =>
    `${name}, ${style.name}: ${cellText(intervalCell(value, acceptedLengthText))}`;
  const texts = known.flatMap(({ name, marks }) => marks.map((mark) => describe(name, mark)));
  const ends = (value: Interval): readonly [low: number, high: number] =>
    hasInterval(value) ? [value.low, value.high] : [value.estimate, value.estimate];
  const highs = all.map(({ value }) => ends(value)[1]).filter(Number.isFinite);
  return drawChart({
    description: `Accepted length with its 95 % interval. ${texts.join('. ')}.`,
    height: known.reduce((sum, { marks }) => sum + 18 + 20 * marks.length, 0),
    x: { label: 'accepted length (tokens per step) →', domain: [1, 1.04 * largest(highs, 2)] },
    y: {
      domain: [known.length - 0.5, -0.5],
      ticks: known.map(({ name }, at) => ({ at, text: Array.from(name).slice(0, 22).join('') })),
    },
    key: styles,
    series: styles.map((style) => {
      const placed = known.flatMap(({ name, marks }, row) =>
        marks.flatMap(({ style: own, value }, index) =>
          own.name === style.name
            ? [{ name, value, y: row + (0.62 * (index + 0.5)) / marks.length - 0.31 }]
            : [],
        ),
      );
      return {
        ...style,
        width: 5,
        opacity: 0.35,
        lines: placed.map(({ value, y }) => ends(value).map((x) => ({ x, y }))),
        dots: placed.map(({ name, value, y }) => ({
          x: value.estimate,
          y,
          title: describe(name, { style, value }),
        })),
      };
    }),
  });
}
