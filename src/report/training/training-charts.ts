/** How a training run went, drawn along its updates. */
import { fixed, acceptedLengthText } from '../../core/number-text.js';
import type { LengthLine, UpdateLine } from '../../train/loop/training-state.js';
import type { MeasuredLengths } from '../../train/train-run.js';
import { type Point, type Series, drawChart, drawDepths } from '../chart.js';
import type { Markup } from '../markup.js';

/** More points make the file larger and nothing clearer. */
const maxPoints = 400;
/** Share of a run over which it is smoothed, on each side. */
const smoothingReach = 0.04;

/** Means of stretches of equal length where there are more points than a chart can show. */
export function thinPoints(points: readonly Point[]): readonly Point[] {
  const stretch = Math.ceil(points.length / maxPoints);
  if (stretch <= 1) return points;
  return Array.from({ length: Math.ceil(points.length / stretch) }, (_, index) => {
    const own = points.slice(index * stretch, (index + 1) * stretch);
    return { x: own[Math.floor(own.length / 2)]!.x, y: own.reduce((sum, { y }) => sum + y, 0) / own.length };
  });
}

/** Each value becomes the mean of its neighborhood, which is as wide to the left as to the right. */
export function smoothPoints(points: readonly Point[]): readonly Point[] {
  const widest = Math.max(1, Math.round(smoothingReach * points.length));
  const sums = [0];
  for (const { y } of points) sums.push(sums.at(-1)! + y);
  return points.map(({ x }, index) => {
    const width = Math.min(widest, index, points.length - 1 - index);
    return { x, y: (sums[index + width + 1]! - sums[index - width]!) / (2 * width + 1) };
  });
}

const accent = { name: '', color: 'var(--accent)' };

/** A line for each series over the updates, with the single values as a thin line behind it. */
function drawAlongUpdates(
  description: string,
  label: string,
  lines: readonly {
    readonly style: Pick<Series, 'name' | 'color' | 'dash'>;
    readonly points: readonly Point[];
  }[],
): Markup {
  const smooth = lines.map(({ points }) => smoothPoints(points));
  const raw = lines.flatMap(({ points }) => points);
  let [low, high] = [Infinity, -Infinity];
  for (const { y } of raw) [low, high] = [Math.min(low, y), Math.max(high, y)];
  // A chart that begins far above 0 shows small changes; one that begins near 0 shows proportions.
  const bottom = low < 0.5 * high ? Math.min(0, low) : low - 0.05 * (high - low);
  const spoken = smooth.map(
    (points, index) =>
      `${lines[index]!.style.name} ${fixed(points[0]?.y ?? NaN, 3)} to ${fixed(points.at(-1)?.y ?? NaN, 3)}`,
  );
  return drawChart({
    description: `${description} ${spoken.join('; ').trim()}.`,
    height: 180,
    x: { label: 'update →', domain: [0, raw.at(-1)?.x ?? 1] },
    y: { label, domain: [bottom, high > bottom ? high + 0.04 * (high - bottom) : bottom + 1] },
    key: lines.length > 1 ? lines.map(({ style }) => style) : undefined,
    series: lines.flatMap(({ style, points }, index) => [
      {
        ...style,
        dash: 'none',
        lines: [thinPoints(points)],
        width: 1,
        opacity: lines.length > 1 ? 0.14 : 0.35,
      },
      { ...style, lines: [thinPoints(smooth[index]!)] },
    ]),
  });
}

export const drawValue = (
  updates: readonly UpdateLine[],
  name: 'loss' | 'rate' | 'norm' | 'distance' | 'confidence',
  label: string,
): Markup =>
  drawAlongUpdates(`${label} over ${updates.length} updates:`, `↑ ${label}`, [
    { style: accent, points: updates.map((line) => ({ x: line.update, y: line[name] ?? 0 })) },
  ]);

const dashes = ['none', '7 3', '3 3', '9 3 2 3', '1.5 3'];

export function drawLevels(updates: readonly UpdateLine[]): Markup {
  const lines = Array.from({ length: updates[0]?.levels.length ?? 0 }, (_, level) => ({
    style: {
      name: `token ${level + 1}`,
      color: level === 0 ? 'var(--accent)' : 'var(--ink)',
      dash: dashes[level % dashes.length],
    },
    points: updates
      .filter(({ levelRows }) => levelRows[level] !== 0)
      .map(({ update, levels }) => ({ x: update, y: levels[level]! })),
  }));
  return drawAlongUpdates('Cross-entropy of each drafted token:', '↑ cross-entropy (nats)', lines);
}

export function drawLengthCurve(lengths: readonly LengthLine[], { first, best }: MeasuredLengths): Markup {
  const points = lengths.map(({ update, length }) => ({
    x: update,
    y: length,
    title: `after update ${update}: ${acceptedLengthText(length)}`,
  }));
  const values = points.map(({ y }) => y);
  return drawChart({
    description: `Accepted length on held-out texts: ${acceptedLengthText(first.length)} before, at best ${acceptedLengthText(best.length)} after update ${best.update}.`,
    height: 200,
    x: { label: 'update →', domain: [0, points.at(-1)?.x ?? 1] },
    y: {
      label: '↑ accepted length on held-out texts (tokens per step)',
      domain: [1, 1.05 * values.reduce((most, value) => Math.max(most, value), 1.1)],
    },
    levels: [{ value: first.length, name: 'before' }],
    series: [
      {
        ...accent,
        symbol: 'circle',
        filled: true,
        lines: [thinPoints(points)],
        dots: points.length > 60 ? [] : points,
      },
    ],
  });
}

export const drawReached = ({ first, best }: MeasuredLengths): Markup =>
  drawDepths(
    'Share of steps that accept the draft up to each depth.',
    Math.max(2, first.reached.length),
    [
      {
        style: { name: 'best', color: 'var(--accent)', symbol: 'circle', filled: true },
        shares: best.reached,
      },
      {
        style: { name: 'before', color: 'var(--soft)', dash: '6 3', symbol: 'circle' },
        shares: first.reached,
      },
    ],
    true,
  );
