/** What defences came to, as the tables of docs/defences.md: lengths, times against no defence, and the price where nobody attacks. */
import { bootstrapInterval, pooledAcceptedLengthInterval } from '../src/measure/bootstrap.js';
import type { Interval } from '../src/measure/bootstrap.js';

/** Without a suffix, with the one that was made for the drafter, with a random one. */
export const arms = ['clean', 'attacked', 'random'] as const;
export type Arm = (typeof arms)[number];

/** One request. */
export interface Measured {
  readonly steps: number;
  readonly accepted: number;
  /** Behind the first. */
  readonly tokens: number;
  /** Where it was timed. */
  readonly ms?: number;
}

/** [defence][arm][prompt]; `nothing` is what others are held against. */
export type Measures = ReadonlyMap<string, ReadonlyMap<Arm, readonly Measured[]>>;

const none = 'nothing';

export const columns: readonly string[] = [
  ...['drafter', 'defence', 'clean', 'attacked', 'random', 'of the loss won back', 'price in length'],
  ...['speed clean', 'speed attacked', 'speed random'],
];

/** Cells of each defence: lengths with intervals; speeds against `nothing`, whose own are tokens per second. */
export function listDefences(name: string, measures: Measures): readonly (readonly string[])[] {
  const of = (way: string, arm: Arm): readonly Measured[] => measures.get(way)!.get(arm)!;
  const loss = lengthOf(of(none, 'clean')) - lengthOf(of(none, 'attacked'));
  return [...measures.keys()].map((way) => [
    ...[name, way],
    ...arms.map((arm) => showRange(pooledAcceptedLengthInterval(of(way, arm), { seed: `${way} ${arm}` }), 2)),
    way === none ? '–' : share((lengthOf(of(way, 'attacked')) - lengthOf(of(none, 'attacked'))) / loss),
    way === none ? '–' : showChange(compare(of(way, 'clean'), of(none, 'clean'), lengthOf)),
    ...arms.map((arm) =>
      way === none
        ? `${rateOf(timed(of(way, arm))).toFixed(0)} a second`
        : showChange(compare(timed(of(way, arm)), timed(of(none, arm)), rateOf)),
    ),
  ]);
}

const sum = (measured: readonly Measured[], key: keyof Measured): number =>
  measured.reduce((total, each) => total + (each[key] ?? 0), 0);
const timed = (measured: readonly Measured[]): readonly Measured[] =>
  measured.filter(({ ms }) => ms !== undefined);
const lengthOf = (measured: readonly Measured[]): number =>
  1 + sum(measured, 'accepted') / sum(measured, 'steps');
const rateOf = (measured: readonly Measured[]): number =>
  (1000 * sum(measured, 'tokens')) / sum(measured, 'ms');

/** The same prompts on both sides, resampled as pairs. */
function compare(
  now: readonly Measured[],
  then: readonly Measured[],
  statistic: (measured: readonly Measured[]) => number,
): Interval {
  const pairs = now.map((each, index) => [each, then[index]!] as const);
  return bootstrapInterval(
    pairs,
    (some) => statistic(some.map(([one]) => one)) / statistic(some.map(([, two]) => two)) - 1,
    { seed: 'defences' },
  );
}

const signed = (value: number): string =>
  `${value < 0 ? '−' : '+'}${Math.abs(100 * value).toFixed(Math.abs(value) < 0.0995 ? 1 : 0)}`;
const share = (value: number): string => `${(100 * value).toFixed(0).replace('-', '−')} %`;

function showChange({ estimate, low, high }: Interval): string {
  return `${signed(estimate)} % (${signed(low)} to ${signed(high)})`;
}

function showRange({ estimate, low, high }: Interval, digits: number): string {
  return `${estimate.toFixed(digits)} (${low.toFixed(digits)}–${high.toFixed(digits)})`;
}
