/** What a run of certain outputs does, for any lengths. */
import { type Dimension, formatDimension } from '../../../graph/dimension.js';
import type { Destination } from '../../program.js';
import type { Schedule } from './schedule.js';
import { type Place, type Step, readsOf, resultsOf } from './step.js';

export interface RunPlan {
  readonly schedule: Schedule;
  /** Outputs for the host. */
  readonly hosted: readonly string[];
  readonly steps: readonly Step[];
  readonly values: readonly { readonly place: Place; readonly from: number; readonly until: number }[];
}

export function planRun(
  schedule: Schedule,
  destinations: ReadonlyMap<string, Destination>,
  sizeOf: (dimension: Dimension) => number,
): RunPlan {
  const wanted = [...destinations.keys()];
  const chosen = schedule.steps.flatMap((step): readonly Step[] => {
    if (step.kind !== 'small-batch') return [step];
    const form = step.forms.find(({ rows }) => rows >= sizeOf(step.rows));
    return form === undefined ? step.replaced : [{ ...step, forms: [form] }];
  });
  const needed = findNeeded(chosen, schedule, wanted);
  const steps = chosen.filter((step) => needed.has(step));
  const until = new Map<object, number>();
  steps.forEach((step, at) => {
    for (const { key } of readsOf(step)) until.set(key, at);
  });
  const keyOf = (name: string): object => schedule.outputs.get(name)!.key;
  for (const name of wanted) until.set(keyOf(name), steps.length);
  const hosted = wanted.filter((name) => destinations.get(name) === 'host');
  const placedApart = new Set(hosted.map(keyOf));
  const values = steps.flatMap((step, at) =>
    resultsOf(step)
      .filter(({ key }) => !placedApart.has(key))
      .map((place) => ({ place, from: at, until: until.get(place.key) ?? at })),
  );
  return { schedule, hosted, steps, values };
}

export interface RowForms {
  readonly rows: Dimension;
  /** Max rows of small-batch kernels, ascending. */
  readonly bounds: readonly number[];
}

export function listForms({ steps }: Schedule): readonly RowForms[] {
  const found = new Map<string, { readonly rows: Dimension; readonly bounds: Set<number> }>();
  for (const step of steps) {
    if (step.kind !== 'small-batch') continue;
    const { rows, forms } = step;
    const known = found.get(formatDimension(rows)) ?? { rows, bounds: new Set() };
    for (const form of forms) known.bounds.add(form.rows);
    found.set(formatDimension(rows), known);
  }
  return [...found.values()].map(({ rows, bounds }) => ({ rows, bounds: [...bounds].sort((a, b) => a - b) }));
}

/** Runs with the same kernels share a plan. */
export const describeForms = (forms: readonly RowForms[], sizeOf: (dimension: Dimension) => number): string =>
  forms.map(({ rows, bounds }) => bounds.find((bound) => bound >= sizeOf(rows)) ?? 'more').join();

function findNeeded(
  steps: readonly Step[],
  schedule: Schedule,
  wanted: readonly string[],
): ReadonlySet<Step> {
  const needed = new Set<Step>();
  const makers = new Map(steps.flatMap((step) => resultsOf(step).map(({ key }) => [key, step] as const)));
  const visit = (place: Place): void => {
    const step = makers.get(place.key);
    if (step === undefined || needed.has(step)) return;
    needed.add(step);
    for (const read of readsOf(step)) visit(read);
  };
  for (const name of wanted) visit(schedule.outputs.get(name)!);
  return needed;
}

/** Symbols that products need exactly, that choose kernels, or that shorten something as they grow. */
export function findExact(steps: readonly Step[]): ReadonlySet<string> {
  const exact = new Set<string>();
  const add = (dimension: Dimension, isWanted: (coefficient: number) => boolean): void => {
    if (typeof dimension === 'number') return;
    for (const { coefficient, symbols } of dimension.terms)
      if (isWanted(coefficient)) for (const name of symbols) exact.add(name);
  };
  const visit = (step: Step): void => {
    if (step.kind === 'small-batch') {
      add(step.rows, () => true);
      step.replaced.forEach(visit);
    }
    const tensors = step.kind === 'product' ? [step.tensor, ...step.tensor.inputs] : [];
    for (const { shape } of tensors) for (const dimension of shape) add(dimension, () => true);
    for (const { tensor } of resultsOf(step))
      for (const dimension of tensor.shape) add(dimension, (coefficient) => coefficient < 0);
  };
  steps.forEach(visit);
  return exact;
}
