/** What the guard thinks of kept steps: a monitor calibrated on benign ones, and its evidence along others. */
import { createRandom } from '../src/core/random.js';
import type { SavedMonitor } from '../src/guard/monitor-state.js';
import { Baseline } from '../src/guard/baseline.js';
import { Monitor } from '../src/guard/monitor.js';
import type { RequestRecord } from '../src/guard/request-record.js';
import type { NullHypothesis } from '../src/guard/sequential-test.js';
import { divideFalseAlarms, RequestTest } from '../src/guard/sequential-test.js';
import type { Trace } from './guard-traces.js';
import { draftLength } from './guard-traces.js';

export const falseAlarms = 0.01;
export const stream = { model: 'reference', route: '/v1/chat/completions' } as const;
export const minuteMs = 60_000;

export function toRecord(trace: Trace, tenant: string, id: string, endedMs: number): RequestRecord {
  const { accepted, proposed, promptTokens, tokens } = trace;
  return {
    ...stream,
    ...{ id, tenant, endedMs, promptTokens, completionTokens: tokens },
    ...{ engine: 'mistletoe', status: 200, ending: 'complete', upstream: 'speculative', isStream: true },
    ...{ firstByteMs: null, totalMs: 0, promptPrint: null },
    speculation: {
      ...{ evidence: 'reported', steps: accepted.length, histogram: null, draftLength, isTree: false },
      accepted: accepted.reduce((sum, count) => sum + count, 0),
      proposed: proposed.reduce((sum, count) => sum + count, 0),
      ...{ perStepAccepted: accepted, perStepProposed: proposed },
    },
  };
}

/** A monitor that has seen these requests, one a minute, in an order that is drawn. */
export function calibrate(traces: readonly Trace[]): SavedMonitor {
  const monitor = new Monitor({ falseAlarms });
  const order = [...traces];
  createRandom(0, 'calibration').shuffle(order);
  for (const [index, trace] of order.entries())
    monitor.observe(toRecord(trace, `tenant-${index % 20}`, trace.id, index * minuteMs));
  return monitor.save();
}

/** What the monitor has learnt to take for benign. */
export function hypothesisOf({ baseline: saved }: SavedMonitor): NullHypothesis & { isGrown: boolean } {
  const baseline = new Baseline({ levels: divideFalseAlarms(falseAlarms) });
  baseline.restore(saved);
  const expectation = baseline.expect({ ...stream, sort: 'reported:steps' });
  if (expectation === undefined) throw new Error('The monitor has learnt too little to expect anything.');
  return { ...expectation.hypothesis, isGrown: expectation.isGrown };
}

export interface Scored {
  readonly trace: Trace;
  readonly meanLength: number;
  /** At the request's end. */
  readonly evidence: number;
  /** [step] The most evidence so far, and the tokens of the answer until then. */
  readonly course: readonly { readonly peak: number; readonly tokens: number }[];
  /** Tokens of the answer when a monitor as it is set up rang; undefined where it did not. */
  readonly rangAt: number | undefined;
}

/** Each request beside a monitor that has seen the calibration alone. */
export function score(traces: readonly Trace[], calibrated: SavedMonitor): readonly Scored[] {
  const hypothesis = hypothesisOf(calibrated);
  const monitor = new Monitor({ falseAlarms });
  monitor.restore(calibrated);
  return traces.map((trace) => {
    const test = new RequestTest(hypothesis);
    // A watch that is never finished teaches the monitor nothing.
    const watch = monitor.begin(stream, 'someone', trace.id, { promptTokens: trace.promptTokens });
    const course: { peak: number; tokens: number }[] = [];
    let tokens = 1;
    let rangAt: number | undefined;
    for (const [step, accepted] of trace.accepted.entries()) {
      const proposed = trace.proposed[step]!;
      tokens = Math.min(trace.tokens, tokens + accepted + 1);
      test.step(accepted, proposed);
      course.push({ peak: test.peak.sharp, tokens });
      const alarm = watch.step(accepted, proposed, 0);
      if (alarm !== undefined && alarm.cause !== 'repetition') rangAt ??= tokens;
    }
    return { trace, meanLength: meanLengthOf(trace), evidence: test.now.sharp, course, rangAt };
  });
}

export const meanLengthOf = ({ accepted }: Trace): number =>
  1 + accepted.reduce((sum, count) => sum + count, 0) / Math.max(1, accepted.length);

export const peakOf = ({ course }: Scored): number => course.at(-1)?.peak ?? 1;

/** Tokens of the answer until the evidence was above the threshold. */
export const tokensUntil = ({ course }: Scored, threshold: number): number | undefined =>
  course.find(({ peak }) => peak > threshold)?.tokens;

/** The lowest threshold that at most this share of the values lies above. */
export function thresholdFor(values: readonly number[], share: number): number {
  const sorted = [...values].sort((left, right) => right - left);
  return sorted[Math.floor(share * sorted.length)] ?? -Infinity;
}

/** The chance that an attacked request scores above a benign one; ties count half. */
export function areaUnderRoc(benign: readonly number[], attacked: readonly number[]): number {
  let wins = 0;
  for (const high of attacked) for (const low of benign) wins += high > low ? 1 : high === low ? 0.5 : 0;
  return wins / (benign.length * attacked.length);
}
