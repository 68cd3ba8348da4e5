/** A quantity along the updates of a run, made fit to be drawn. */
export interface Point {
  readonly update: number;
  readonly value: number;
}
export type Series = readonly Point[];

/** Points that a chart can show apart; more make the file larger and nothing clearer. */
const mostPoints = 400;
/** Share of a run over which it is smoothed, on each side. */
const reach = 0.04;

/** Means of stretches of equal length where there are more points than can be told apart. */
export function thinSeries(series: Series): Series {
  const stretch = Math.ceil(series.length / mostPoints);
  if (stretch <= 1) return series;
  return Array.from({ length: Math.ceil(series.length / stretch) }, (_, index) => {
    const own = series.slice(index * stretch, (index + 1) * stretch);
    return { update: own[Math.floor(own.length / 2)]!.update, value: meanOf(own) };
  });
}

/** Each value becomes the mean of its neighbourhood, which is as wide to the left as to the right. */
export function smoothSeries(series: Series): Series {
  const widest = Math.max(1, Math.round(reach * series.length));
  const sums = [0];
  for (const { value } of series) sums.push(sums.at(-1)! + value);
  return series.map(({ update }, index) => {
    const width = Math.min(widest, index, series.length - 1 - index);
    const sum = sums[index + width + 1]! - sums[index - width]!;
    return { update, value: sum / (2 * width + 1) };
  });
}

const meanOf = (series: Series): number => series.reduce((sum, { value }) => sum + value, 0) / series.length;
