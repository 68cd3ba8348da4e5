/** An audit's events as progress: which unit of how many, where its search stands, and how long the rest will take. */
import type { AuditEvents, UnitName } from '../audit/drafter-audit.js';
import type { TracePoint } from '../audit/result.js';
import type { TimeEstimate } from '../audit/time-left.js';
import { createTimeEstimate } from '../audit/time-left.js';
import { durationText, fixed } from '../report/number-text.js';
import type { Progress, ProgressFields } from './progress.js';

export interface ProgressClock {
  readonly now: () => number;
}

export function createAuditProgress(progress: Progress, { now }: ProgressClock): AuditEvents {
  let done = 0;
  let estimate: TimeEstimate | undefined;
  const show = ({ drafter, prompt, arm }: UnitName, more: ProgressFields = {}): void => {
    const left = estimate?.left(now());
    progress.update(done, {
      drafter,
      prompt,
      arm,
      ...more,
      ...(left === undefined ? {} : { left: durationText(left) }),
    });
  };
  return {
    onStart(units) {
      estimate = createTimeEstimate(units);
      progress.start(units.length, 'audit');
    },
    onUnitStart(unit, finished) {
      done = finished;
      estimate?.start(unit, now());
      show(unit);
    },
    onStep(unit, point, steps) {
      show(unit, describeStep(point, steps));
    },
    onUnitEnd(unit, acceptedLength) {
      done += 1;
      estimate?.end(now());
      show(unit, acceptedLength === undefined ? {} : { accepted: fixed(acceptedLength, 2) });
    },
    onNotice: progress.note,
  };
}

function describeStep({ step, acceptedLength, divergence }: TracePoint, steps: number): ProgressFields {
  return {
    step: `${step}/${steps}`,
    ...(acceptedLength === null ? {} : { accepted: fixed(acceptedLength, 2) }),
    KL: fixed(divergence, 3),
  };
}
