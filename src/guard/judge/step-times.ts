/**
 * The break-even point from an engine's own timings: the time of a drafted step over that of a plain one. Each tenant counts
 * as the median of its own requests, and the tenants as the median of theirs, so one tenant cannot move the result past what
 * the others show. Several keys of one sender can; the limits below bound what they gain.
 */
import type { Observation } from '../observation.js';
import { RecentMap } from '../state/recent-map.js';

/** Mean times of a step in milliseconds, oldest first. */
type Times = number[];

interface ModelTimes {
  readonly drafted: RecentMap<Times>;
  readonly plain: RecentMap<Times>;
  breakEven: number | undefined;
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
    return this.models.peek(model)?.breakEven;
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
    times.breakEven = divide(times);
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
      times.breakEven = divide(times);
      return [model, times] as const;
    });
    this.models.replace(models);
  }
}

const createTimes = (): ModelTimes => ({
  drafted: new RecentMap(maxTenants),
  plain: new RecentMap(maxTenants),
  breakEven: undefined,
});

function divide({ drafted, plain }: ModelTimes): number | undefined {
  const [draftedMs, plainMs] = [medianOfTenants(drafted), medianOfTenants(plain)];
  if (draftedMs === undefined || plainMs === undefined) return undefined;
  return Math.min(limits.max, Math.max(limits.min, draftedMs / plainMs));
}

function medianOfTenants(tenants: RecentMap<Times>): number | undefined {
  const medians = [...tenants.entries()].flatMap(([, times]) =>
    times.length < min.times ? [] : middleOf(times),
  );
  return medians.length < min.tenants ? undefined : middleOf(medians);
}

function middleOf(values: readonly number[]): number {
  const sorted = values.toSorted((left, right) => left - right);
  const half = (sorted.length - 1) / 2;
  return (sorted[Math.floor(half)]! + sorted[Math.ceil(half)]!) / 2;
}
