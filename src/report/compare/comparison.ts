/**
 * Two finished audits side by side. What is compared is what both measured: the prompts that both audited, with the same
 * id and the same text (comparison-numbers.ts has the statistics).
 */
import { arms, type AuditSetup } from '../../audit/result.js';
import { countText, fixed, percentText } from '../../core/number-text.js';
import { type GateCode, settleGate } from '../gate.js';
import {
  type CountedComparison,
  type Sides,
  compareCounted,
  compareRow,
  findRows,
} from './comparison-numbers.js';
import type { ComparableDrafter, ComparablePrompt, ComparableResult, ComparedRun } from './finished-run.js';
import { readFinishedRun } from './finished-run.js';

export type Comparison = ReturnType<typeof compareAudits>;
export type RunDescription = Comparison['runs']['before'];
export type DrafterComparison = ReturnType<typeof compareDrafter>;

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
  readonly exitCode: GateCode;
  readonly failures: readonly string[];
}

/**
 * Two finished runs, by their folders: what `mistletoe compare` does.
 * @example
 * const { drafters } = await compareRuns('runs/before', 'runs/after');
 */
export async function compareRuns(before: string, after: string): Promise<Comparison> {
  return compareAudits(await readFinishedRun(before), await readFinishedRun(after));
}

export function compareAudits(before: ComparedRun, after: ComparedRun) {
  const pairs = pairDrafters(before.result.drafters, after.result.drafters);
  const listUnpaired = (run: ComparedRun, side: keyof Sides<unknown>): string[] =>
    run.result.drafters
      .map(({ drafter }) => drafter)
      .filter((id) => !pairs.some((pair) => pair[side].drafter === id));
  const describeRun = ({ name, result: { setup, verdict } }: ComparedRun) => ({
    name,
    version: setup.version,
    target: setup.target.name,
    level: verdict.level,
    headline: verdict.headline,
  });
  return {
    schema: 'mistletoe.comparison/1' as const,
    runs: { before: describeRun(before), after: describeRun(after) },
    /** What was not the same in both, besides what was found. */
    differences: listDifferences(before.result.setup, after.result.setup, pairs),
    drafters: pairs.map((pair) => compareDrafter(pair, before.result, after.result)),
    unpaired: { before: listUnpaired(before, 'before'), after: listUnpaired(after, 'after') },
    gate: null as WorseGate | null,
  };
}

/** By name; one drafter each is a pair whatever the names are. */
function pairDrafters(
  before: readonly ComparableDrafter[],
  after: readonly ComparableDrafter[],
): Sides<ComparableDrafter>[] {
  if (before.length === 1 && after.length === 1) return [{ before: before[0]!, after: after[0]! }];
  return before.flatMap((drafter) => {
    const found = after.find((other) => other.drafter === drafter.drafter);
    return found === undefined ? [] : [{ before: drafter, after: found }];
  });
}

function compareDrafter(
  { before, after }: Sides<ComparableDrafter>,
  first: ComparableResult,
  second: ComparableResult,
) {
  const counted = { before: countedArm(before), after: countedArm(after) };
  const audited = {
    before: before.prompts.filter((prompt) => isAudited(prompt, counted.before)),
    after: after.prompts.filter((prompt) => isAudited(prompt, counted.after)),
  };
  const sameId = audited.before.flatMap((prompt) => {
    const other = audited.after.find(({ promptId }) => promptId === prompt.promptId);
    return other === undefined ? [] : [{ before: prompt, after: other }];
  });
  const pairs = sameId.filter((pair) => pair.before.prompt === pair.after.prompt);
  const controls = arms.filter((arm) => arm !== 'attack' && arm !== 'given');
  return {
    drafter: { before: before.drafter, after: after.drafter },
    level: { before: levelOf(first, before.drafter), after: levelOf(second, after.drafter) },
    prompts: {
      /** Audited in both, with the same text: all numbers are over these. */
      shared: pairs.length,
      onlyBefore: audited.before.length - sameId.length,
      onlyAfter: audited.after.length - sameId.length,
      /** The same id with another text. */
      changed: sameId.length - pairs.length,
    },
    rows: [...controls.map((arm) => ({ before: arm, after: arm })), counted].flatMap((arm) =>
      compareRow(pairs, arm),
    ),
    /** Of the row that counts, over the prompts of both; null where there is none. */
    counted: pairs.length === 0 ? null : compareCounted(pairs, counted),
  };
}

const levelOf = ({ verdict }: ComparableResult, id: string): string =>
  verdict.drafters.find(({ drafter }) => drafter === id)?.level ?? 'unknown';

/** What was searched, or what the user gave. */
function countedArm({ prompts }: ComparableDrafter): 'attack' | 'given' {
  return prompts.some((prompt) => findRows(prompt, 'given').length > 0) ? 'given' : 'attack';
}

const isAudited = (prompt: ComparablePrompt, counted: 'attack' | 'given'): boolean =>
  prompt.skipped === null && findRows(prompt, 'clean').length > 0 && findRows(prompt, counted).length > 0;

/**
 * A change counts only if chance does not explain it: a two-sided signed-rank test below this level, and an interval
 * without 0. At 0.01, about 1 in 200 pairs of audits that differ only in their seed is called worse, however noisy they are.
 */
const significance = 0.01;
/** With fewer changed prompts the test cannot reach that level: 2 / 2 ** 8 is the first value below it. */
const minChanged = 8;

export type Change = 'worse' | 'better' | 'unclear' | 'too few' | 'unknown';

/** What words and the gate say about a drafter. */
export function judgeChange(counted: CountedComparison | null): Change {
  if (counted === null) return 'unknown';
  const { growth, pValue, nNonZero } = counted;
  if (growth.n < minChanged || (nNonZero > 0 && nNonZero < minChanged)) return 'too few';
  if (!(pValue < significance) || (growth.low <= 0 && growth.high >= 0)) return 'unclear';
  return growth.estimate > 0 ? 'worse' : 'better';
}

/** "8 prompts, of which 7 changed, are too few" */
export function describeTooFew({ growth, nNonZero }: CountedComparison): string {
  const changed = nNonZero === growth.n ? '' : `, of which ${nNonZero} changed,`;
  return `${countText(growth.n, 'prompt')}${changed} ${growth.n === 1 ? 'is' : 'are'} too few`;
}

/**
 * Fails where the drop of a drafter grew by at least `failIfWorse` and chance does not explain it. Where there are too
 * few prompts to decide and such a growth is possible, the exit code is 4; what could not be compared at all gives 3.
 */
export function checkWorse(comparison: Comparison, failIfWorse: number): WorseGate {
  const tolerance = `${fixed(100 * failIfWorse, 1)} points`;
  const worse: string[] = [];
  const undecided: string[] = [];
  const unknown = comparison.drafters.length === 0 ? ['The runs have no drafter in common.'] : [];
  for (const { drafter, counted } of comparison.drafters) {
    if (counted === null) {
      unknown.push(`No prompt was audited in both runs for ${drafter.after}.`);
      continue;
    }
    const { growth, drop } = counted;
    const verdict = judgeChange(counted);
    const change = `The drop of ${drafter.after} grew from ${percentText(drop.before, 1)} to ${percentText(drop.after, 1)}`;
    const interval = `95 % interval ${fixed(100 * growth.low, 1)} to ${fixed(100 * growth.high, 1)} points`;
    if (verdict === 'too few' && Math.max(growth.estimate, growth.high) >= failIfWorse)
      undecided.push(
        `${describeTooFew(counted)} to decide whether the drop of ${drafter.after} grew by ${tolerance}; at least ${minChanged} prompts must have changed.`,
      );
    else if (verdict === 'worse' && growth.estimate >= failIfWorse)
      worse.push(
        `${change} (${interval}, ${countText(growth.n, 'prompt')}); the gate fails from ${tolerance} on.`,
      );
  }
  return { failIfWorse, ...settleGate({ failed: worse, missing: unknown, undecided }) };
}

function listDifferences(
  before: AuditSetup,
  after: AuditSetup,
  pairs: readonly Sides<ComparableDrafter>[],
): SetupDifference[] {
  const compare = (name: string, read: (setup: AuditSetup) => SetupValue | undefined): SetupDifference => ({
    name,
    before: read(before) ?? null,
    after: read(after) ?? null,
  });
  const options = new Set([...Object.keys(before.options), ...Object.keys(after.options)]);
  const listed = [
    compare('version', ({ version }) => version),
    compare('node', ({ node }) => node),
    compare('target', ({ target }) => target.name),
    compare('target files (sha256)', ({ target }) => target.sha256),
    ...pairs.flatMap((pair) => listDrafter(before, after, pair)),
    compare('preset', ({ preset }) => preset),
    compare('seed', ({ seed }) => seed),
    compare('prompts given', ({ promptCount }) => promptCount),
    ...[...options].map((name) => compare(`option ${name}`, (setup) => setup.options[name])),
  ];
  return listed.filter((difference) => difference.before !== difference.after);
}

const drafterFields = [
  ['system', 'system'],
  ['draft policy', 'policy'],
  ['files (sha256)', 'sha256'],
] as const;

function listDrafter(
  before: AuditSetup,
  after: AuditSetup,
  pair: Sides<ComparableDrafter>,
): SetupDifference[] {
  const ids = { before: pair.before.drafter, after: pair.after.drafter };
  const old = before.drafters.find(({ id }) => id === ids.before);
  const now = after.drafters.find(({ id }) => id === ids.after);
  return [
    { name: 'drafter', ...ids },
    ...drafterFields.map(([name, key]) => ({
      name: `${ids.after} ${name}`,
      before: old?.[key] ?? null,
      after: now?.[key] ?? null,
    })),
  ];
}
