/**
 * Question 1: does drafting pay for this request? The break-even point is the cost of a drafted step in plain tokens. A
 * request is collapsed when even the upper confidence bound of its accepted length is below that. No baseline is needed.
 */
import { median } from '../../core/vector.js';
import { meanAcceptedLength, type Observation, type Speculation } from '../observation.js';
import type { BreakEvenSource } from './verdict.js';
import { RecentMap } from '../state/recent-map.js';

export type Cost = Readonly<ReturnType<typeof weighCost>>;

/** Default cost of a drafted step: a plain one, the drafter, and a little for each draft token that is verified. */
const drafterCost = 0.1;
const draftTokenCost = 0.03;
/** Verifying more tokens than this in one pass costs little more: it is bound by reading the weights. */
const maxCostlyTokens = 8;
/** Where the engine does not report how much it drafts. */
const defaultDraftLength = 4;

/** One-sided standard normal quantiles. */
export const confidence = { request: 1.645, tenant: 3.09 } as const; // 95 % and 99.9 %

/**
 * @param configured the cost of a step that drafts in plain tokens, as the operator set it
 * @param timed the same, from the engine's timings
 */
export function weighCost(speculation: Speculation, configured?: number, timed?: number) {
  const { steps, accepted } = speculation;
  const breakEven = findBreakEven(speculation, configured ?? timed);
  const upperBound = boundLength(accepted, steps, confidence.request);
  const breakEvenFrom: BreakEvenSource =
    configured !== undefined ? 'config' : timed !== undefined ? 'timings' : 'default';
  return {
    acceptedLength: meanAcceptedLength(speculation),
    steps,
    upperBound,
    breakEven,
    breakEvenFrom,
    isCollapsed: upperBound < breakEven,
    /** Enough steps that a total collapse would be recognized. */
    isConclusive: boundLength(0, steps, confidence.request) < breakEven,
  };
}

/** Tokens per step from which drafting pays; 1 where nothing was drafted, because then nothing was spent. */
export function findBreakEven(speculation: Speculation, draftedStep?: number): number {
  const { steps, proposed, perStepProposed, draftLength, isTree } = speculation;
  if (proposed === 0 || steps === 0) return 1;
  const perStep =
    proposed === null || isTree
      ? (draftLength ?? defaultDraftLength)
      : Math.min(proposed / steps, maxCostlyTokens);
  const draftedShare =
    perStepProposed === null
      ? Math.min(1, perStep)
      : perStepProposed.filter((tokens) => tokens > 0).length / perStepProposed.length;
  if (draftedStep !== undefined) return 1 + (draftedStep - 1) * draftedShare;
  return 1 + drafterCost * draftedShare + draftTokenCost * Math.min(perStep, maxCostlyTokens);
}

/**
 * Upper confidence bound of the mean accepted length, with accepted draft tokens as Poisson events (the Wilson-Hilferty
 * approximation of the exact bound). It is 1 + 3.0 / steps where nothing was accepted, at 95 %.
 */
export function boundLength(accepted: number, steps: number, deviations: number): number {
  if (steps === 0) return Infinity;
  const events = accepted + 1;
  return 1 + (events * (1 - 1 / (9 * events) + deviations / (3 * Math.sqrt(events))) ** 3) / steps;
}

// The break-even point from an engine's own timings: the time of a drafted step over that of a plain one. Each tenant counts
// as the median of its own requests, and the tenants as the median of theirs, so one tenant cannot move the result past what
// the others show. Several keys of one sender can; the limits below bound what they gain.
/** Mean times of a step in milliseconds, oldest first. */
type Times = number[];

interface ModelTimes {
  readonly drafted: RecentMap<Times>;
  readonly plain: RecentMap<Times>;
}

const maxModels = 64;
const maxTenants = 32;
const maxTimes = 15;
const min = { steps: 8, times: 5, tenants: 3 } as const;
const limits = { min: 1.05, max: 2 } as const;

export class StepTimes {
  private readonly models = new RecentMap<ModelTimes>(maxModels);

  /** Undefined until enough tenants had drafted and plain steps. */
  breakEvenOf(model: string): number | undefined {
    const times = this.models.peek(model);
    const [draftedMs, plainMs] = [times?.drafted, times?.plain].map(medianOfTenants);
    if (draftedMs === undefined || plainMs === undefined) return undefined;
    return Math.min(limits.max, Math.max(limits.min, draftedMs / plainMs));
  }

  learn({ model, tenant, speculation }: Pick<Observation, 'model' | 'tenant' | 'speculation'>): void {
    const { steps = 0, proposed = null, stepMs } = speculation ?? {};
    if (stepMs === undefined || proposed === null || steps < min.steps) return;
    // Where only some steps drafted, the mean is that of neither kind.
    if (proposed > 0 && proposed < steps) return;
    const times = this.models.getOrCreate(model, createTimes);
    const own = (proposed > 0 ? times.drafted : times.plain).getOrCreate(tenant, () => []);
    own.push(stepMs);
    if (own.length > maxTimes) own.shift();
    medians.delete(own);
  }

  save() {
    return [...this.models.entries()].map(
      ([model, { drafted, plain }]) => [model, [...drafted.entries()], [...plain.entries()]] as const,
    );
  }

  restore(saved: ReturnType<StepTimes['save']>): void {
    const models = saved.map(([model, drafted, plain]) => {
      const times = createTimes();
      times.drafted.replace(drafted);
      times.plain.replace(plain);
      return [model, times] as const;
    });
    this.models.replace(models);
  }
}

const createTimes = (): ModelTimes => ({
  drafted: new RecentMap(maxTenants),
  plain: new RecentMap(maxTenants),
});

function medianOfTenants(tenants: RecentMap<Times> | undefined): number | undefined {
  const middles = [...(tenants?.entries() ?? [])].flatMap(([, times]) =>
    times.length < min.times ? [] : keptMedian(times),
  );
  return middles.length < min.tenants ? undefined : median(middles);
}

/** Of the lists that have not changed since. */
const medians = new WeakMap<Times, number>();

function keptMedian(times: Times): number {
  const own = medians.get(times) ?? median(times);
  medians.set(times, own);
  return own;
}
