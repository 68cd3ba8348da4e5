/** The picture at the top of a page: accepted lengths with their intervals, one line for each thing compared. */
import type { Interval } from '../measure/bootstrap.js';
import { largest } from '../core/long-lists.js';
import { acceptedLengthText } from '../core/number-text.js';
import type { MarkStyle } from './chart.js';
import { drawChart } from './chart.js';
import type { Content } from './markup.js';

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
  const texts = known.flatMap(({ name, marks }) =>
    marks.map(({ style, value }) => `${name}, ${style.name}: ${intervalText(value)}`),
  );
  const highs = all.map(({ value }) => value.high).filter(Number.isFinite);
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
        lines: placed.map(({ value: { low, high }, y }) => [
          { x: low, y },
          { x: high, y },
        ]),
        dots: placed.map(({ name, value, y }) => ({
          x: value.estimate,
          y,
          title: `${name}, ${style.name}: ${intervalText(value)}`,
        })),
      };
    }),
  });
}

/** "2.28 (2.10 to 2.45)"; one prompt has no interval. */
export function intervalText({ estimate, low, high, n }: Interval): string {
  const range = n < 2 ? '' : ` (${acceptedLengthText(low)} to ${acceptedLengthText(high)})`;
  return `${acceptedLengthText(estimate)}${range}`;
}
