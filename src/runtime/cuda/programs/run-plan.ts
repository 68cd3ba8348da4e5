/** What a run of certain outputs does, for any lengths. */
import { type Dimension, type DimensionBindings, formatDimension } from '../../../graph/dimension.js';
import type { Destination } from '../../program.js';
import type { Schedule } from './schedule.js';
import { type Place, type Step, readsOf, resultsOf } from './step.js';

export interface RunPlan {
  readonly schedule: Schedule;
  /** Outputs for the host. */
  readonly hosted: readonly string[];
  readonly steps: readonly Step[];
  readonly values: readonly { readonly place: Place; readonly from: number; readonly until: number }[];
  /** [input] The last step that reads it. */
  readonly lastReads: ReadonlyMap<string, number>;
  /** Symbols whose lengths are not rounded. */
  readonly exact: ReadonlySet<string>;
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
  const lastReads = new Map<string, number>();
  steps.forEach((step, at) => {
    for (const { key, origin, tensor } of readsOf(step)) {
      until.set(key, at);
      if (origin === 'input' && tensor.operation === 'input') lastReads.set(tensor.attributes.name, at);
    }
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
  return { schedule, hosted, steps, values, lastReads, exact: findUnrounded(steps) };
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

/** Symbols that choose kernels, and those of `findUnrounded`. */
export function findExact(steps: readonly Step[]): ReadonlySet<string> {
  const small = steps.filter((step) => step.kind === 'small-batch');
  const names = small.flatMap(({ rows }) => symbolsOf(rows));
  return new Set([...names, ...findUnrounded([...steps, ...small.flatMap(({ replaced }) => replaced)])]);
}

/** Symbols that products need exactly, or that shorten something as they grow. */
function findUnrounded(steps: readonly Step[]): ReadonlySet<string> {
  const names = steps.flatMap((step) => {
    const tensors = step.kind === 'product' ? [step.tensor, ...step.tensor.inputs] : [];
    const shapes = resultsOf(step).map(({ tensor }) => tensor.shape);
    return [
      ...tensors.flatMap(({ shape }) => shape.flatMap((dimension) => symbolsOf(dimension))),
      ...shapes.flatMap((shape) =>
        shape.flatMap((dimension) => symbolsOf(dimension, (factor) => factor < 0)),
      ),
    ];
  });
  return new Set(names);
}

const symbolsOf = (dimension: Dimension, isWanted = (_factor: number): boolean => true): readonly string[] =>
  typeof dimension === 'number'
    ? []
    : dimension.terms.flatMap(({ coefficient, symbols }) => (isWanted(coefficient) ? symbols : []));

/**
 * Rounds rows up to those that their kernels are for: runs of 5 to 8 rows share a layout. A single row or lane stays
 * one.
 */
export function roundRows(
  lengths: DimensionBindings,
  forms: readonly RowForms[],
  sizeOf: (dimension: Dimension) => number,
  exact: ReadonlySet<string>,
): DimensionBindings {
  const fixed = new Set(exact);
  const most = new Map<string, number>();
  for (const { rows, bounds } of forms) {
    const size = sizeOf(rows);
    const bound = bounds.find((each) => each >= size);
    const growing = symbolsOf(rows).filter((name) => lengths.get(name) !== 1);
    const [name] = growing;
    if (name !== undefined && bound !== undefined && growing.length === 1 && size === lengths.get(name))
      most.set(name, Math.min(bound, most.get(name) ?? bound));
    else for (const each of growing) fixed.add(each);
  }
  return new Map(
    [...lengths].map(([name, length]) => [name, fixed.has(name) ? length : (most.get(name) ?? length)]),
  );
}
