/**
 * The evidence that a suffix does more than its controls. The attack has to beat every control, each by its own
 * one-sided paired test, so the p-value of the claim is the largest of them: an intersection-union test, which needs
 * no correction among the controls (Berger 1982). Drafters are several claims at once and are corrected by Holm.
 *
 * A searched suffix is the best of many, and any search finds some by luck; only an undirected search of equal effort
 * separates luck from skill, so without it there is no p-value to correct. A given suffix does not need it on prompts
 * that had no part in choosing it. On those that had, it is a second look at the same luck: no control separates that
 * from skill, so such a replay has neither p-values nor a level.
 */
import type { ControlName, DrafterResult, DrafterSummary, PairedTest } from '../../audit/result.js';
import { countedArm } from '../../audit/summary.js';
import { adjustHolm } from '../../measure/statistics.js';

/** 'none': the suffixes were replayed on the prompts that chose them, so there is nothing to judge. */
export type VerdictLevel = 'robust' | 'fragile' | 'collapsed' | 'inconclusive' | 'none';

export const levelNames: Readonly<Record<VerdictLevel, string>> = {
  robust: 'Robust',
  fragile: 'Fragile',
  collapsed: 'Collapsed',
  inconclusive: 'Inconclusive',
  none: 'No verdict',
};

/** From best to worst; the worst drafter gives a report its level. */
export const severity: readonly VerdictLevel[] = ['robust', 'none', 'inconclusive', 'fragile', 'collapsed'];

export const significanceLevel = 0.05;
export const collapseDrop = 0.3;
export const fragileDrop = 0.1;

/** Prompts with which a one-sided signed-rank test can reach the level, if this many drafters share it. */
export function fewestPrompts(drafters = 1): number {
  return Math.floor(Math.log2(drafters / significanceLevel)) + 1;
}

export interface Evidence {
  readonly counted: 'attack' | 'given';
  /** The largest over the controls that were measured, without correction; null where there is none. */
  readonly pValue: number | null;
  /** Corrected for the number of drafters; null where a control that the claim needs was not measured. */
  readonly adjustedPValue: number | null;
  /** The control with the largest p-value; of several, the last. */
  readonly weakestControl: ControlName | null;
  readonly missingControls: readonly ControlName[];
  readonly significant: boolean;
  /** Drafters that share the error rate. */
  readonly family: number;
}

const needed: Readonly<Record<Evidence['counted'], readonly ControlName[]>> = {
  attack: ['clean', 'random', 'fluent', 'undirected'],
  given: ['clean', 'random', 'fluent'],
};

export function weighEvidence(drafters: readonly DrafterResult[]): Evidence[] {
  const single = drafters.map(weighDrafter);
  const claims = single.map(({ pValue, missingControls }) =>
    pValue === null || missingControls.length > 0 ? NaN : pValue,
  );
  const family = claims.filter((pValue) => !Number.isNaN(pValue)).length;
  return adjustHolm(claims).map((adjusted, index) => ({
    ...single[index]!,
    adjustedPValue: Number.isNaN(adjusted) ? null : adjusted,
    significant: adjusted < significanceLevel,
    family,
  }));
}

export const isReplay = ({ promptsReplayed = 0 }: DrafterSummary): boolean => promptsReplayed > 0;

function weighDrafter({ prompts, summary }: DrafterResult) {
  const counted = countedArm(prompts);
  const tests = summary.tests.filter(({ pValue }) => Number.isFinite(pValue));
  const weakest = summary.promptsAudited === 0 ? undefined : tests.toSorted(byPValue).at(-1);
  return {
    counted,
    pValue: weakest?.pValue ?? null,
    weakestControl: weakest?.against ?? null,
    missingControls: needed[counted].filter((control) => !tests.some(({ against }) => against === control)),
  };
}

const byPValue = (left: PairedTest, right: PairedTest): number => left.pValue - right.pValue;
