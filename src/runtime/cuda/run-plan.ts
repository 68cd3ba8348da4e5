/** What a run of certain outputs does, whatever the lengths: its steps, how long each value is needed, which lengths count exactly. */
import type { Dimension } from '../../graph/dimension.js';
import type { Place, Schedule, Step } from './schedule.js';

/** Where an output goes: with the host, or copied to a buffer at the end. */
export type OutputKind = 'host' | 'buffer';

export interface RunPlan {
  readonly schedule: Schedule;
  readonly wanted: ReadonlyMap<string, OutputKind>;
  /** The steps that the wanted outputs come from, with their numbers in the schedule. */
  readonly steps: readonly { readonly step: Step; readonly at: number }[];
  /** Computed values that lie in the memory of the run, and how long. */
  readonly values: readonly { readonly place: Place; readonly from: number; readonly until: number }[];
  /** Symbols whose exact lengths products are told, or that shorten something where they grow. */
  readonly exact: ReadonlySet<string>;
}

export function planRun(schedule: Schedule, wanted: ReadonlyMap<string, OutputKind>): RunPlan {
  const needed = findNeeded(schedule, wanted);
  const steps = schedule.steps.flatMap((step, at) => (needed.has(step) ? [{ step, at }] : []));
  const until = new Map<object, number>();
  for (const { step, at } of steps) for (const { key } of readsOf(step)) until.set(key, at);
  const end = schedule.steps.length;
  const kinds = new Map([...wanted].map(([name, kind]) => [schedule.outputs.get(name)!.key, kind]));
  for (const key of kinds.keys()) until.set(key, end);
  const values = steps.flatMap(({ step: { result }, at }) =>
    kinds.get(result.key) === 'host' ? [] : [{ place: result, from: at, until: until.get(result.key) ?? at }],
  );
  return { schedule, wanted, steps, values, exact: findExact(steps.map(({ step }) => step)) };
}

/** The steps that the wanted outputs come from. */
function findNeeded(schedule: Schedule, wanted: ReadonlyMap<string, OutputKind>): ReadonlySet<Step> {
  const needed = new Set<Step>();
  const makers = new Map(schedule.steps.map((step) => [step.result.key, step]));
  const visit = (place: Place): void => {
    const step = makers.get(place.key);
    if (step === undefined || needed.has(step)) return;
    needed.add(step);
    for (const read of readsOf(step)) visit(read);
  };
  for (const name of wanted.keys()) visit(schedule.outputs.get(name)!);
  return needed;
}

const readsOf = (step: Step): readonly Place[] =>
  step.kind === 'product'
    ? [step.left, step.right]
    : (step.plan.operands as readonly Place[]).filter(({ key }) => key !== step.result.key);

function findExact(steps: readonly Step[]): ReadonlySet<string> {
  const exact = new Set<string>();
  const add = (dimension: Dimension, isWanted: (coefficient: number) => boolean): void => {
    if (typeof dimension === 'number') return;
    for (const { coefficient, symbols } of dimension.terms)
      if (isWanted(coefficient)) for (const name of symbols) exact.add(name);
  };
  for (const step of steps) {
    const tensors = step.kind === 'product' ? [step.tensor, ...step.tensor.inputs] : [];
    for (const { shape } of tensors) for (const dimension of shape) add(dimension, () => true);
    for (const dimension of step.result.tensor.shape) add(dimension, (coefficient) => coefficient < 0);
  }
  return exact;
}
