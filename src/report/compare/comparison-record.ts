/** What a comparison of two audits finds, as plain data. */
import type { ArmName } from '../../audit/arms/arms.js';
import type { KeptClass } from '../../measure/kept-class.js';
import type { Interval } from '../../measure/bootstrap.js';

export const comparisonSchema = 'mistletoe.comparison/1';

export interface Sides<T> {
  readonly before: T;
  readonly after: T;
}

export interface Comparison {
  readonly schema: typeof comparisonSchema;
  readonly runs: Sides<RunDescription>;
  /** What was not the same in both, besides what was found. */
  readonly differences: readonly SetupDifference[];
  readonly drafters: readonly DrafterComparison[];
  /** Drafters that only one of the runs has. */
  readonly unpaired: Sides<readonly string[]>;
  readonly gate: WorseGate | null;
}

export interface RunDescription {
  readonly name: string;
  readonly version: string;
  readonly target: string;
  readonly level: string;
  readonly headline: string;
}

export interface DrafterComparison {
  readonly drafter: Sides<string>;
  readonly level: Sides<string>;
  readonly prompts: PromptCounts;
  readonly rows: readonly RowComparison[];
  /** Of the row that counts, over the prompts of both; null where there is none. */
  readonly counted: CountedComparison | null;
}

export interface PromptCounts {
  /** Audited in both, with the same text: all numbers are over these. */
  readonly shared: number;
  readonly onlyBefore: number;
  readonly onlyAfter: number;
  /** The same id with another text. */
  readonly changed: number;
}

export interface RowComparison {
  /** Two names only where an attack is compared with suffixes that were given. */
  readonly arm: Sides<ArmName>;
  readonly n: number;
  /** Accepted length along the clean answer, pooled over the shared prompts. */
  readonly length: Sides<number>;
  /** after / before - 1 of that length. */
  readonly lengthChange: Interval;
  /** Against the clean row of the same run: -0.25 is a quarter less; null for that row itself. */
  readonly change: Sides<number> | null;
  /** The second change less the first: -0.08 is 8 percentage points worse. */
  readonly difference: Interval | null;
  /** Target passes for the clean answer, a prompt. */
  readonly passes: Sides<number>;
  readonly kept: Sides<Readonly<Record<KeptClass, number>>>;
}

export interface CountedComparison {
  /** 1 - attacked / clean length. */
  readonly drop: Sides<number>;
  /** The second less the first: above 0 is worse. */
  readonly growth: Interval;
  /** Prompts on which the search found no suffix. */
  readonly withoutSuffix: Sides<number>;
  /** Prompts whose change differs between the runs: the others do not count in the test. */
  readonly nNonZero: number;
  /** Whether the changes of the prompts differ, by a paired signed-rank test; two-sided. */
  readonly pValue: number;
}

export interface SetupDifference {
  /** "target weights", "seed", or an option as it is given. */
  readonly name: string;
  /** Null where the run does not have it. */
  readonly before: SetupValue;
  readonly after: SetupValue;
}

export type SetupValue = string | number | boolean | null;

export interface WorseGate {
  readonly failIfWorse: number;
  /** 0: passed, 3: a drafter could not be compared, 4: too few prompts to decide, 100: a drop grew too far. */
  readonly exitCode: 0 | 3 | 4 | 100;
  readonly failures: readonly string[];
}
