/** The progress of an audit: the plan, the current unit, and the time left. */
import type { AuditEvents, AuditPlanned, UnitName } from '../../audit/audit-events.js';
import type { TracePoint } from '../../audit/result.js';
import type { TimeEstimate } from '../../audit/time-left.js';
import { createTimeEstimate } from '../../audit/time-left.js';
import { fixed } from '../../core/number-text.js';
import type { Progress, ProgressClock, ProgressFields } from '../progress.js';
import { describeLeft, roughDuration } from '../progress.js';

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
    progress.update(done, { drafter, prompt, arm, ...fields, leftMs: leftMs && Math.round(leftMs) }, () => [
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

export function describePlan({ target, drafters, preset, folder, expectedMs }: AuditPlanned): string {
  const plural = drafters.length === 1 ? 'drafter' : 'drafters';
  const time = expectedMs === null ? 'time not known yet' : `about ${roughDuration(expectedMs)}`;
  return `audit: target ${target}, ${plural} ${drafters.join(', ')}, preset ${preset}, run folder ${folder}, ${time}`;
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
