/** From values to places on a drawing, and the round values to mark on its axes. */
export interface Scale {
  readonly from: number;
  readonly to: number;
  place(value: number): number;
}

export function createScale(values: readonly [number, number], places: readonly [number, number]): Scale {
  const [from, to] = values;
  const [start, end] = places;
  const span = to - from;
  return {
    from,
    to,
    place: (value) => (span === 0 ? (start + end) / 2 : start + ((value - from) / span) * (end - start)),
  };
}

/** Multiples of 1, 2 or 5 times a power of ten; at most `most` of them. */
export function roundMarks({ from, to }: Scale, most: number): number[] {
  const rough = (to - from) / Math.max(1, most - 1);
  if (!(rough > 0) || !Number.isFinite(rough)) return [from];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= rough * 0.999)!;
  return multiples(from, to, step);
}

const minute = 60_000;
const hour = 60 * minute;
const timeSteps = [
  1000,
  5000,
  15_000,
  30_000,
  minute,
  2 * minute,
  5 * minute,
  10 * minute,
  15 * minute,
].concat([30 * minute, hour, 2 * hour, 3 * hour, 6 * hour, 12 * hour, 24 * hour]);

/** Moments at which a clock reads round. */
export function timeMarks(
  { from, to }: Scale,
  most: number,
): { readonly marks: number[]; readonly step: number } {
  const rough = (to - from) / Math.max(1, most);
  const step =
    timeSteps.find((candidate) => candidate >= rough) ?? Math.ceil(rough / (24 * hour)) * 24 * hour;
  if (!(rough > 0) || !Number.isFinite(step)) return { marks: [from], step: 1000 };
  // Whole hours are whole on the reader's clock, which may be half an hour off.
  const shift = new Date(from).getTimezoneOffset() * minute;
  return { marks: multiples(from - shift, to - shift, step).map((mark) => mark + shift), step };
}

function multiples(from: number, to: number, step: number): number[] {
  const first = Math.ceil(from / step - 1e-9);
  const count = Math.max(0, Math.floor(to / step + 1e-9) - first + 1);
  // Divided rather than multiplied by fractions: 0.3, not 0.30000000000000004.
  return Array.from({ length: count }, (_, index) =>
    step < 1 ? (first + index) / Math.round(1 / step) : (first + index) * step,
  );
}
