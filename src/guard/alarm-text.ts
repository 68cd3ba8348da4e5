/** Alarms in one sentence each: what was seen, what was expected, how sure, and what it points to. */
import type { Band } from './baseline-cell.js';

const digits = (value: number): string => value.toFixed(2);

/** 316 -> '316', 12345678 -> '12 million': a chance of one in so many. */
export function formatOneIn(count: number): string {
  if (count < 10_000) return String(Math.max(1, Math.round(count)));
  if (count < 1e6) return `${Math.round(count / 1000)},000`;
  return count < 1e9 ? `${Math.round(count / 1e6)} million` : 'more than a billion';
}

export interface SeenLength {
  readonly seen: number;
  readonly steps: number;
  readonly expected: Band;
}

/** "1.08 tokens a step over 41 steps, where 1.42 to 4.10 are usual and 2.51 is the middle" */
export function describeLength({ seen, steps, expected }: SeenLength): string {
  const { low, high, middle } = expected;
  return (
    `${digits(seen)} tokens a step over ${steps} steps, ` +
    `where ${digits(low)} to ${digits(high)} are usual and ${digits(middle)} is the middle`
  );
}

/** `chance`: of a benign request that does the same. */
export function describeRequestAlarm(
  length: SeenLength,
  chance: number,
  because: string,
  isGrown: boolean,
): string {
  const sure = isGrown
    ? `at most one benign request in ${formatOneIn(1 / chance)} does this`
    : 'the baseline is still young, so how sure this is cannot be said';
  return `A request accepted ${describeLength(length)}; ${sure}; ${because}.`;
}

export function describeTenantAlarm(
  length: SeenLength,
  requests: number,
  evidence: number,
  because: string,
): string {
  return (
    `${requests === 1 ? 'One request' : `${requests} requests`} of a tenant accepted ${describeLength(length)}; ` +
    `usual traffic shows this once in ${formatOneIn(evidence)} requests at most; ${because}.`
  );
}

export function describeEveryoneAlarm(
  length: SeenLength,
  share: number,
  tenants: number,
  evidence: number,
): string {
  const who = tenants >= 3 ? `of the last ${tenants} tenants` : 'of the last requests';
  return (
    `${Math.round(100 * share)} % ${who} are low at once: ${describeLength(length)}; ` +
    `usual traffic shows this once in ${formatOneIn(evidence)} requests at most; ` +
    'this points to the drafter or its deployment rather than to anybody.'
  );
}
