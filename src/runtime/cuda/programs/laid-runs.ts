/**
 * The layouts of a program's runs. Runs of the same kernels and outputs, and of lengths that round to the same, share one,
 * and its recording if everything lies at the same addresses.
 */
import type { DimensionBindings } from '../../../graph/dimension.js';
import type { PreparationClock } from '../../preparation-clock.js';
import type { Destination, InputDescription } from '../../program.js';
import type { Address } from '../driver/device.js';
import type { RecordedRun, RecordingShelf } from './recording-shelf.js';
import { layOutRun, measureWith, roundLengths, type RunLayout } from './run-layout.js';
import {
  describeForms,
  findExact,
  listForms,
  planRun,
  roundRows,
  type RowForms,
  type RunPlan,
} from './run-plan.js';
import type { Schedule } from './schedule.js';

/** Recorded when a run repeats with everything at the same addresses. */
export interface LaidRun extends RecordedRun {
  readonly plan: RunPlan;
  readonly layout: RunLayout;
  places: readonly Address[];
  /** Later recordings, for buffers elsewhere, are part of computing. */
  wasRecorded: boolean;
}

interface PlannedRun {
  readonly plan: RunPlan;
  /** By lengths; the least recently used goes first. */
  readonly layouts: Map<string, LaidRun>;
}

const maxLayouts = 64;

export class LaidRuns {
  /** By kernels, outputs and inputs from the host. */
  private readonly planned = new Map<string, PlannedRun>();
  /** Symbols whose lengths are not rounded before kernels are chosen. */
  private readonly exact: ReadonlySet<string>;
  private readonly forms: readonly RowForms[];

  constructor(
    private readonly schedule: Schedule,
    private readonly parts: {
      readonly recordings: RecordingShelf;
      readonly preparation: PreparationClock;
    },
  ) {
    this.exact = findExact(schedule.steps);
    this.forms = listForms(schedule);
  }

  find(
    destinations: ReadonlyMap<string, Destination>,
    bindings: DimensionBindings,
    sent: readonly InputDescription[], // what comes from the host
  ): LaidRun {
    const rounded = roundLengths(bindings, this.exact);
    const { size } = measureWith(rounded);
    const key = [
      describeForms(this.forms, size),
      ...[...destinations].map(([name, to]) => `${name} ${to === 'host' ? 'host' : 'buffer'}`),
      ...sent.map(({ name }) => name),
    ].join();
    const { preparation } = this.parts;
    const planned = this.planned.get(key) ?? {
      plan: preparation.blocking(() => planRun(this.schedule, destinations, size)),
      layouts: new Map<string, LaidRun>(),
    };
    this.planned.set(key, planned);
    return this.layOut(planned, sent, roundRows(rounded, this.forms, size, planned.plan.exact));
  }

  private layOut(
    { plan, layouts }: PlannedRun,
    sent: readonly InputDescription[],
    lengths: DimensionBindings,
  ): LaidRun {
    const key = [...lengths].map(([name, length]) => `${name}=${length}`).join(' ');
    const laid = layouts.get(key) ?? {
      plan,
      layout: this.parts.preparation.blocking(() => layOutRun(plan, sent, lengths)),
      places: [],
      recording: undefined,
      wasRecorded: false,
    };
    layouts.delete(key);
    layouts.set(key, laid);
    const [oldest] = layouts;
    if (layouts.size > maxLayouts) {
      this.parts.recordings.drop(oldest![1]);
      layouts.delete(oldest![0]);
    }
    return laid;
  }

  dispose(): void {
    for (const { layouts } of this.planned.values())
      for (const laid of layouts.values()) this.parts.recordings.drop(laid);
  }
}
