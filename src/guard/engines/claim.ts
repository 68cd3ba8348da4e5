/**
 * Checks the numbers an engine reports about a request against each other. Response bodies are untrusted: a claim is
 * either used as a whole or rejected with a reason, and no input makes the reader throw, loop, or keep much memory.
 */
import { isRecord, showValue } from '../../core/json-text.js';
import type { Evidence, Speculation } from '../observation.js';

export type JsonObject = Readonly<Record<string, unknown>>;

/** Usable telemetry, or the reason why it was rejected. */
export type Reading = { readonly speculation: Speculation } | { readonly refusal: string };

export interface Claim {
  readonly evidence: Evidence;
  readonly steps: unknown;
  readonly accepted: unknown;
  readonly proposed?: unknown;
  /** Steps by number of accepted tokens: a list, or an object with those numbers as keys. */
  readonly histogram?: unknown;
  readonly perStepAccepted?: unknown;
  readonly perStepProposed?: unknown;
  readonly draftLength?: unknown;
  /** As computed by the engine, including the bonus token. */
  readonly meanLength?: unknown;
  readonly isTree?: boolean;
  readonly stepMs?: unknown;
}

/** One of each choice; undefined for a choice without telemetry. */
export type Claims = readonly (Claim | { readonly refusal: string } | undefined)[];

/** Far above any real request, and small enough for exact sums. */
const maxCount = 1e9;
const maxDraftLength = 1024;
const maxStepMs = 600_000;
/** Longer answers keep totals and histogram only. */
export const maxKeptSteps = 65_536;
/** Engines round their means. */
const meanTolerance = 0.02;

class Contradiction extends Error {}

/** Undefined where the text is not JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

export const asObject = (value: unknown): JsonObject | undefined => (isRecord(value) ? value : undefined);

export const asList = (value: unknown): readonly unknown[] | undefined =>
  Array.isArray(value) ? (value as readonly unknown[]) : undefined;

export const asCount = (value: unknown): number | undefined =>
  typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= maxCount ? value : undefined;

/** The first present field; releases renamed some. */
export const firstOf = (object: JsonObject, names: readonly string[]): unknown =>
  names.map((name) => object[name]).find((value) => !isAbsent(value));

const isAbsent = (value: unknown): value is undefined | null => value === undefined || value === null;

export function checkClaim(claim: Claim): Reading {
  try {
    return { speculation: readClaim(claim) };
  } catch (failure) {
    if (failure instanceof Contradiction) return { refusal: failure.message };
    throw failure;
  }
}

function readClaim(claim: Claim): Speculation {
  const { evidence, meanLength, isTree = false } = claim;
  const steps = readCount(claim.steps, 'steps');
  const accepted = readCount(claim.accepted, 'accepted draft tokens');
  const proposed = isAbsent(claim.proposed) ? null : readCount(claim.proposed, 'proposed draft tokens');
  const draftLength = isAbsent(claim.draftLength) ? null : readCount(claim.draftLength, 'draft length');
  const maxLength = draftLength ?? maxDraftLength;
  if (maxLength > maxDraftLength) refuse(`a draft length of ${maxLength}, more than ${maxDraftLength}`);
  if (proposed !== null && accepted > proposed)
    refuse(`${accepted} accepted of ${proposed} proposed draft tokens`);
  if (accepted > steps * maxLength)
    refuse(`${accepted} accepted draft tokens in ${steps} steps of at most ${maxLength}`);
  const expected = 1 + accepted / steps;
  if (steps > 0 && typeof meanLength === 'number' && !(Math.abs(meanLength / expected - 1) <= meanTolerance))
    refuse(`a mean accepted length of ${meanLength} where the counts give ${expected.toFixed(2)}`);
  const histogram = readHistogram(claim.histogram, steps, accepted);
  const perStepAccepted = readSteps(claim.perStepAccepted, steps, accepted);
  const perStepProposed = readSteps(claim.perStepProposed, steps, proposed);
  const step =
    perStepAccepted?.findIndex((count, index) => count > (perStepProposed?.[index] ?? Infinity)) ?? -1;
  if (step >= 0)
    refuse(`${perStepAccepted![step]} accepted of ${perStepProposed![step]} draft tokens in step ${step}`);
  const lists = { histogram, perStepAccepted, perStepProposed };
  const speculation = { evidence, steps, accepted, proposed, ...lists, draftLength, isTree };
  const { stepMs } = claim;
  const isTimed = typeof stepMs === 'number' && stepMs > 0 && stepMs < maxStepMs;
  return isTimed ? { ...speculation, stepMs } : speculation;
}

function refuse(seen: string): never {
  throw new Contradiction(`The engine reports ${seen}.`);
}

const readCount = (value: unknown, what: string): number =>
  asCount(value) ?? refuse(`${showBriefly(value)} as the number of ${what}`);

/** Printing a list or object would walk all of it. */
function showBriefly(value: unknown): string {
  if (typeof value === 'object' && value !== null) return Array.isArray(value) ? 'a list' : 'an object';
  return typeof value === 'number' ? String(value) : showValue(value);
}

function readHistogram(value: unknown, steps: number, accepted: number): readonly number[] | null {
  if (isAbsent(value)) return null;
  const counts = asList(value) ?? spreadOut(asObject(value) ?? refuse(`${showBriefly(value)} as histogram`));
  if (counts.length === 0) return steps === 0 ? [] : null;
  if (counts.length > maxDraftLength + 1) refuse(`a histogram of ${counts.length} entries`);
  const histogram = counts.map((each) => readCount(each, 'steps in the histogram'));
  const total = sum(histogram);
  const weighted = sum(histogram.map((count, depth) => count * depth));
  if (total !== steps) refuse(`${steps} steps, but ${total} in the histogram`);
  if (weighted !== accepted) refuse(`${accepted} accepted draft tokens, but ${weighted} in the histogram`);
  return histogram;
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

/** {"0": 3, "2": 5} becomes [3, 0, 5]. */
function spreadOut(sparse: JsonObject): readonly unknown[] {
  const dense: unknown[] = [];
  for (const key in sparse) {
    const index = /^\d{1,4}$/.test(key) ? Number(key) : maxDraftLength + 1;
    if (index > maxDraftLength) refuse('a histogram whose keys are not draft token counts');
    while (dense.length <= index) dense.push(0);
    dense[index] = sparse[key];
  }
  return dense;
}

function readSteps(value: unknown, steps: number, total: number | null): readonly number[] | null {
  if (isAbsent(value)) return null;
  const list = asList(value) ?? refuse(`${showBriefly(value)} as its list of steps`);
  if (list.length !== steps) refuse(`${steps} steps, but lists ${list.length}`);
  if (list.length > maxKeptSteps) return null;
  const counts = list.map((count) => readCount(count, 'draft tokens in a step'));
  const seen = sum(counts);
  if (total !== null && seen !== total) refuse(`${total} draft tokens, but ${seen} in its list of steps`);
  return counts;
}

/** Checks the claims of all choices or prompts of a request and sums them; undefined where any of them has none. */
export function readClaims(claims: Claims): Reading | undefined {
  const parts: Speculation[] = [];
  for (const claim of claims) {
    const reading = claim && ('refusal' in claim ? claim : checkClaim(claim));
    if (reading === undefined) continue;
    if ('refusal' in reading) return reading;
    parts.push(reading.speculation);
  }
  const [first] = parts;
  if (first === undefined || parts.length < claims.length) return undefined;
  if (parts.length === 1) return { speculation: first };
  const total = (name: 'steps' | 'accepted' | 'proposed'): number =>
    sum(parts.map((part) => part[name] ?? 0));
  return {
    speculation: {
      ...first,
      steps: total('steps'),
      accepted: total('accepted'),
      proposed: parts.every(({ proposed }) => proposed !== null) ? total('proposed') : null,
      histogram: null,
      perStepAccepted: null,
      perStepProposed: null,
    },
  };
}
