/** Which attacked requests the guard finds, and which it does not: by what they cost, by drafter and set, and each. */
import type { Scored } from './guard-scores.js';
import type { Trace } from './guard-traces.js';

export interface Found {
  readonly drafter: string;
  readonly calibration: readonly Trace[];
  readonly benign: readonly Scored[];
  readonly attacked: readonly Scored[];
  /** [attacked request] tokens until the evidence was above the threshold of the false-alarm rate. */
  readonly detected: readonly (number | undefined)[];
}

interface Outcome {
  readonly drafter: string;
  readonly trace: Trace;
  readonly clean: number;
  readonly attacked: number;
  readonly isFound: boolean;
}

function outcomesOf({ drafter, benign, attacked, detected }: Found): readonly Outcome[] {
  const clean = new Map(benign.map(({ trace, meanLength }) => [trace.prompt, meanLength]));
  return attacked.map(({ trace, meanLength }, index) => ({
    ...{ drafter, trace, attacked: meanLength, isFound: detected[index] !== undefined },
    clean: clean.get(trace.prompt) ?? NaN,
  }));
}

/** Of the draft tokens that are accepted without the suffix; the bonus token comes anyway. */
const leftOf = ({ clean, attacked }: Outcome): number => (attacked - 1) / (clean - 1);
const classes = [0.25, 0.5, 0.75, Infinity];

export function describeStrength(all: readonly Found[]): string[][] {
  const name = (limit: number, index: number): string =>
    limit === Infinity
      ? `${100 * classes[index - 1]!} % or more left`
      : `${100 * (classes[index - 1] ?? 0)} to ${100 * limit} % left`;
  return [
    ['drafter', ...classes.map(name)],
    ...all.map((found) => [
      found.drafter,
      ...classes.map((limit, index) => {
        const those = outcomesOf(found).filter(
          (each) => leftOf(each) < limit && leftOf(each) >= (classes[index - 1] ?? -Infinity),
        );
        return those.length === 0
          ? '-'
          : `${those.filter(({ isFound }) => isFound).length} of ${those.length}`;
      }),
    ]),
  ];
}

export function countMissed(all: readonly Found[]): string[][] {
  const outcomes = all.flatMap(outcomesOf);
  const sets = [...new Set(outcomes.map(({ trace }) => trace.set))];
  return [
    ['drafter', ...sets],
    ...all.map(({ drafter }) => [
      drafter,
      ...sets.map((set) => {
        const those = outcomes.filter((each) => each.drafter === drafter && each.trace.set === set);
        return `${those.filter(({ isFound }) => !isFound).length} of ${those.length}`;
      }),
    ]),
  ];
}

export function listMissed(all: readonly Found[]): string[][] {
  return [
    ['drafter', 'prompt', 'kind', 'tokens', 'accepted length, clean', 'attacked'],
    ...all
      .flatMap(outcomesOf)
      .filter(({ isFound }) => !isFound)
      .map(({ drafter, trace, clean, attacked }) => [
        ...[drafter, trace.prompt, trace.kind, String(trace.tokens)],
        ...[clean.toFixed(2), attacked.toFixed(2)],
      ]),
  ];
}
