/**
 * What an engine claims about a request, held against itself. The numbers come from a body that anybody may have written:
 * a claim is taken whole or refused with the reason, and nothing in it can make the reader throw, loop or keep much.
 */
import { showValue } from '../../core/json-text.js';
import type { Evidence, Speculation } from '../request-record.js';

export type JsonObject = Readonly<Record<string, unknown>>;

/** Telemetry that can be used, or the reason why what looks like it cannot. */
export type Reading = { readonly speculation: Speculation } | { readonly refusal: string };

/** Undefined where the body is not of that engine, or the engine says nothing. */
export type EngineReader = (body: unknown) => Reading | undefined;

export interface Claim {
  readonly evidence: Evidence;
  readonly steps: unknown;
  readonly accepted: unknown;
  readonly proposed?: unknown;
  /** A list by accepted tokens, or an object whose keys are those numbers. */
  readonly histogram?: unknown;
  readonly perStepAccepted?: unknown;
  readonly perStepProposed?: unknown;
  readonly draftLength?: unknown;
  /** Bonus token included, as the engine has computed it. */
  readonly meanLength?: unknown;
  readonly isTree?: boolean;
}

/** Far above what one request can have; sums of such numbers stay exact. */
const highestCount = 1e9;
const highestDraftLength = 1024;
/** Steps that are kept one by one; of longer answers there are totals and histogram. */
export const mostKeptSteps = 65_536;
/** Engines round; more than this is another number. */
const meanTolerance = 0.02;

class Contradiction extends Error {}

export function asObject(value: unknown): JsonObject | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as JsonObject)
    : undefined;
}

export function asList(value: unknown): readonly unknown[] | undefined {
  return Array.isArray(value) ? (value as readonly unknown[]) : undefined;
}

/** A whole number that can be counted with. */
export function asCount(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= highestCount
    ? value
    : undefined;
}

/** Of several names that releases have given to one field, the first that is there. */
export function firstOf(object: JsonObject, names: readonly string[]): unknown {
  for (const name of names) {
    const value = object[name];
    if (value !== undefined && value !== null) return value;
  }
  return undefined;
}

/** The only choice of an answer: telemetry of several cannot be told apart. */
export function onlyChoice(body: JsonObject): JsonObject | undefined {
  const choices = asList(body.choices);
  return choices?.length === 1 ? asObject(choices[0]) : undefined;
}

export function checkClaim(claim: Claim): Reading {
  try {
    return { speculation: readClaim(claim) };
  } catch (failure) {
    if (failure instanceof Contradiction) return { refusal: failure.message };
    throw failure;
  }
}

function readClaim(claim: Claim): Speculation {
  const steps = readCount(claim.steps, 'steps');
  const accepted = readCount(claim.accepted, 'accepted draft tokens');
  const proposed = isAbsent(claim.proposed) ? null : readCount(claim.proposed, 'proposed draft tokens');
  const draftLength = isAbsent(claim.draftLength) ? null : readCount(claim.draftLength, 'draft length');
  if (draftLength !== null && draftLength > highestDraftLength)
    refuse(`a draft length of ${draftLength}, more than ${highestDraftLength}`);
  if (proposed !== null && accepted > proposed)
    refuse(`${accepted} accepted of ${proposed} proposed draft tokens`);
  if (accepted > steps * (draftLength ?? highestDraftLength))
    refuse(
      `${accepted} accepted draft tokens in ${steps} steps of at most ${draftLength ?? highestDraftLength}`,
    );
  const { meanLength } = claim;
  if (steps > 0 && typeof meanLength === 'number') {
    const expected = 1 + accepted / steps;
    if (!(Math.abs(meanLength - expected) <= meanTolerance * expected))
      refuse(`a mean accepted length of ${meanLength} where the counts give ${expected.toFixed(2)}`);
  }
  const histogram = readHistogram(claim.histogram, steps, accepted);
  const { perStepAccepted, perStepProposed } = readSteps(claim, { steps, accepted, proposed });
  const { evidence, isTree = false } = claim;
  return {
    evidence,
    steps,
    accepted,
    proposed,
    histogram,
    perStepAccepted,
    perStepProposed,
    draftLength,
    isTree,
  };
}

const isAbsent = (value: unknown): value is undefined | null => value === undefined || value === null;

function refuse(seen: string): never {
  throw new Contradiction(`The engine tells ${seen}.`);
}

function readCount(value: unknown, what: string): number {
  return asCount(value) ?? refuse(`${showBriefly(value)} as its number of ${what}`);
}

/** Lists and objects only by their kind: showing them would walk through them. */
function showBriefly(value: unknown): string {
  if (typeof value === 'object' && value !== null) return Array.isArray(value) ? 'a list' : 'an object';
  return typeof value === 'number' ? String(value) : showValue(value);
}

function readHistogram(value: unknown, steps: number, accepted: number): readonly number[] | null {
  const counts = asList(value) ?? spreadOut(value);
  if (counts === undefined) return isAbsent(value) ? null : refuse(`${showBriefly(value)} as its histogram`);
  if (counts.length === 0) return steps === 0 ? [] : null;
  if (counts.length > highestDraftLength + 1) refuse(`a histogram of ${counts.length} entries`);
  let total = 0;
  let weighted = 0;
  const histogram = counts.map((each, index) => {
    const count = readCount(each, 'steps in its histogram');
    total += count;
    weighted += index * count;
    return count;
  });
  if (total !== steps) refuse(`${steps} steps, and ${total} in its histogram`);
  if (weighted !== accepted) refuse(`${accepted} accepted draft tokens, and ${weighted} in its histogram`);
  return histogram;
}

/** {"0": 3, "2": 5} is [3, 0, 5]. */
function spreadOut(value: unknown): readonly unknown[] | undefined {
  const sparse = asObject(value);
  if (sparse === undefined) return undefined;
  const dense: unknown[] = [];
  for (const key in sparse) {
    const index = /^\d{1,4}$/.test(key) ? Number(key) : highestDraftLength + 1;
    if (index > highestDraftLength) refuse('a histogram with keys that are no numbers of draft tokens');
    while (dense.length <= index) dense.push(0);
    dense[index] = sparse[key];
  }
  return dense;
}

type PerStep = Pick<Speculation, 'perStepAccepted' | 'perStepProposed'>;

function readSteps(
  claim: Claim,
  totals: { steps: number; accepted: number; proposed: number | null },
): PerStep {
  const perStepAccepted = readStepList(claim.perStepAccepted, totals.steps, totals.accepted);
  const perStepProposed = readStepList(claim.perStepProposed, totals.steps, totals.proposed);
  if (perStepAccepted !== null && perStepProposed !== null) {
    const step = perStepAccepted.findIndex((accepted, index) => accepted > perStepProposed[index]!);
    if (step >= 0)
      refuse(`${perStepAccepted[step]} accepted of ${perStepProposed[step]} draft tokens in step ${step}`);
  }
  return { perStepAccepted, perStepProposed };
}

function readStepList(value: unknown, steps: number, total: number | null): readonly number[] | null {
  if (isAbsent(value)) return null;
  const list = asList(value) ?? refuse(`${showBriefly(value)} where it lists its steps`);
  if (list.length !== steps) refuse(`${steps} steps, and lists ${list.length}`);
  if (list.length > mostKeptSteps) return null;
  let sum = 0;
  const counts = list.map((each) => {
    const count = readCount(each, 'draft tokens in a step');
    sum += count;
    return count;
  });
  if (total !== null && sum !== total) refuse(`${total} draft tokens, and ${sum} in the list of its steps`);
  return counts;
}
