/** An audit's events as progress: what is about to run, which unit of how many, and how long the rest will take. */
import type { AuditEvents, AuditPlanned, UnitName } from '../audit/audit-events.js';
import type { TracePoint } from '../audit/result.js';
import type { TimeEstimate } from '../audit/time-left.js';
import { createTimeEstimate } from '../audit/time-left.js';
import { fixed } from '../core/number-text.js';
import type { Progress, ProgressFields } from './progress.js';

export interface ProgressClock {
  readonly now: () => number;
}

interface Detail {
  readonly fields: ProgressFields;
  readonly words: readonly string[];
}

const noDetail: Detail = { fields: {}, words: [] };

export function createAuditProgress(progress: Progress, { now }: ProgressClock): AuditEvents {
  let done = 0;
  let expectedMs: number | null = null;
  let estimate: TimeEstimate | undefined;
  const show = (unit: UnitName, { fields, words }: Detail = noDetail): void => {
    const { drafter, prompt, arm } = unit;
    const leftMs = estimate?.left(now());
    const left = leftMs === undefined ? {} : { leftMs: Math.round(leftMs) };
    progress.update(done, { drafter, prompt, arm, ...fields, ...left }, () => [
      ...describeLeft(estimate?.left(now())),
      ...[`drafter ${drafter}`, `prompt ${prompt}`, `arm ${arm}`],
      ...words,
    ]);
  };
  return {
    onPlan(plan) {
      expectedMs = plan.expectedMs;
      progress.note(describePlan(plan), { ...plan });
    },
    onStart(units) {
      estimate = createTimeEstimate(units, expectedMs);
      progress.start(units.length, 'audit');
    },
    onUnitStart(unit, finished) {
      done = finished;
      estimate?.start(unit, now());
      show(unit);
    },
    onStep(unit, point, steps) {
      estimate?.step(point.step, steps, now());
      show(unit, describeStep(point, steps));
    },
    onUnitEnd(unit, acceptedLength) {
      done += 1;
      estimate?.end(now());
      show(unit, acceptedLength === undefined ? noDetail : describeLength(acceptedLength));
    },
    onNotice(message) {
      progress.note(message);
    },
  };
}

function describePlan({ target, drafters, preset, folder, expectedMs }: AuditPlanned): string {
  const plural = drafters.length === 1 ? 'drafter' : 'drafters';
  const time = expectedMs === null ? 'time not known yet' : `about ${roughDuration(expectedMs)}`;
  return `audit: target ${target}, ${plural} ${drafters.join(', ')}, preset ${preset}, run folder ${folder}, ${time}`;
}

function describeLeft(milliseconds: number | undefined): string[] {
  return milliseconds === undefined ? [] : [`left ${roughDuration(milliseconds)}`];
}

function describeStep({ step, acceptedLength, divergence }: TracePoint, steps: number): Detail {
  const length = acceptedLength === null ? noDetail : describeLength(acceptedLength);
  return {
    fields: { step, steps, ...length.fields, divergence },
    words: [`step ${step}/${steps}`, ...length.words, `KL ${fixed(divergence, 3)}`],
  };
}

function describeLength(acceptedLength: number): Detail {
  return { fields: { accepted: acceptedLength }, words: [`accepted ${fixed(acceptedLength, 2)}`] };
}

/** As exact as an estimate deserves: 40 s, 4 min, 1 h 20 min, 3 h. */
export function roughDuration(milliseconds: number): string {
  const seconds = Math.max(0, milliseconds / 1000);
  if (seconds < 9.5) return `${Math.ceil(seconds)} s`;
  if (seconds < 87.5) return `${5 * Math.round(seconds / 5)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const tens = 10 * Math.round(seconds / 600);
  const hours = Math.floor(tens / 60);
  return tens % 60 === 0 ? `${hours} h` : `${hours} h ${tens % 60} min`;
}
