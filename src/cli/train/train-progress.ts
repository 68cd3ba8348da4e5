/** The progress of a training run: answers of the target, then weight updates. */
import { smallest } from '../../core/long-lists.js';
import {
  acceptedLengthText,
  countText,
  fixed,
  groupThousands,
  parameterText,
} from '../../core/number-text.js';
import { auditTitles, roleNames } from '../../report/harden/hardening-words.js';
import type { HardenEvents } from '../../train/harden/harden-run.js';
import type { RoundPlace } from '../../train/harden/hardening-rounds.js';
import type { StartedTraining, TrainEvents } from '../../train/train-run.js';
import { nameStart } from '../../train/training-start.js';
import { createAuditProgress } from '../audit/audit-progress.js';
import { typedPath } from '../long-runs.js';
import type { Progress, ProgressClock } from '../progress.js';
import { describeLeft } from '../progress.js';

/** Weight of earlier losses in the displayed one. */
const memory = 0.9;

export function createTrainProgress(progress: Progress, { now }: ProgressClock): TrainEvents {
  let pace: Pace | undefined;
  let steps = 0;
  let tokens = 0;
  let accepted: number | undefined;
  const smooth = createSmoothing();
  return {
    onNotice: progress.note,
    onOpen({ folder, request }) {
      const { system, target, from, shape } = request;
      const start = `${from === undefined ? '' : 'starting from '}${nameStart({ from, ...shape })}`;
      progress.note(`train: ${system} for ${target.name}, ${start}, run folder ${typedPath(folder)}`, {
        folder,
        system,
        target: target.name,
      });
    },
    onAnswers({ done, total, newTokens }) {
      if (pace === undefined) {
        if (done === total) return;
        pace = createPace(now, done);
        progress.start(total, 'answers');
      }
      const speed = newTokens / pace.seconds();
      const leftMs = pace.left(done, total);
      progress.update(done, { newTokens, leftMs: leftMs && Math.round(leftMs) }, () => [
        ...describeLeft(leftMs),
        ...(newTokens === 0 ? [] : [`${fixed(speed, 0)} tokens/s`]),
      ]);
    },
    onStart(start) {
      ({ steps } = start.request.settings);
      pace = createPace(now, start.update);
      progress.note(describeStart(start), { parameterCount: start.parameterCount, update: start.update });
      progress.start(steps, 'train');
      progress.update(start.update, {}, () => []);
    },
    onLine(line) {
      const { update } = line;
      if (line.kind === 'length') accepted = line.length;
      else tokens += line.tokens;
      const loss = line.kind === 'update' ? smooth(line.loss) : undefined;
      const leftMs = pace?.left(update, steps);
      const speed = tokens / (pace?.seconds() ?? NaN);
      const fields = line.kind === 'update' ? { loss: line.loss, rate: line.rate } : {};
      progress.update(update, { ...fields, accepted, leftMs: leftMs && Math.round(leftMs) }, () => [
        ...describeLeft(leftMs),
        ...(loss === undefined ? [] : [`loss ${fixed(loss, 3)}`]),
        ...(accepted === undefined ? [] : [`accepted ${fixed(accepted, 2)}`]),
        ...(tokens === 0 ? [] : [`${fixed(speed, 0)} tokens/s`]),
      ]);
    },
  };
}

function describeStart({ request, texts, parameterCount, update }: StartedTraining): string {
  const { trainingCounts, heldOutCounts } = texts;
  const learned = `${countText(trainingCounts.examples, 'text')} with ${groupThousands(trainingCounts.learntTokens)} tokens to predict`;
  const resumed = update === 0 ? '' : `, resumed after update ${update}`;
  return `train: ${parameterText(parameterCount)}, ${learned}, ${heldOutCounts.examples} held out, ${request.settings.steps} updates${resumed}`;
}

export interface Pace {
  seconds(): number;
  /** Undefined until something was done. */
  left(done: number, total: number): number | undefined;
}

/** Counts from `first`: updates of an earlier start do not count towards the speed. */
function createPace(now: () => number, first: number): Pace {
  const began = now();
  return {
    seconds: () => (now() - began) / 1000,
    left: (done, total) => (done > first ? ((now() - began) / (done - first)) * (total - done) : undefined),
  };
}

/** A moving average without startup bias. */
function createSmoothing(): (value: number) => number {
  let [sum, weight] = [0, 0];
  return (value) => {
    sum = memory * sum + value;
    weight = memory * weight + 1;
    return sum / weight;
  };
}

export function createHardenProgress(progress: Progress, clock: ProgressClock): HardenEvents {
  const { onAnswers } = createTrainProgress(progress, clock);
  let phase = { pace: createPace(clock.now, 0), total: 0 };
  let clean: number | undefined;
  const left = (done: number): number | undefined => phase.pace.left(done, phase.total);
  return {
    onNotice: progress.note,
    onAnswers,
    onOpen({ folder, request }) {
      const { from, system, target, hardening, baselines } = request;
      const beside = baselines.map((name) => ` and as many with ${roleNames[name]}`).join('');
      progress.note(
        `harden: ${from.name} (${system}) for ${target.name}, ${countText(hardening.rounds, 'round')}${beside}, run folder ${typedPath(folder)}`,
        { folder, drafter: from.name, target: target.name },
      );
    },
    onPhase(place, kind, done, total) {
      phase = { pace: createPace(clock.now, done), total };
      clean = undefined;
      if (done === total) return;
      progress.start(total, nameOf(place, kind));
      progress.update(done, {}, () => []);
    },
    onHunt(_place, { prompt, objective, texts, skipped }, done) {
      const lengths = texts.flatMap(({ length }) => length ?? []);
      const shortest = lengths.length === 0 ? undefined : smallest(lengths);
      const leftMs = left(done);
      const fields = { prompt, objective, suffixes: texts.length, leftMs: leftMs && Math.round(leftMs) };
      progress.update(done, { ...fields, accepted: shortest }, () => [
        ...describeLeft(leftMs),
        `prompt ${prompt}`,
        skipped === null ? countText(texts.length, 'suffix') : 'skipped',
        ...(shortest === undefined ? [] : [`accepted ${acceptedLengthText(shortest)}`]),
      ]);
    },
    onLine(_, line) {
      if (line.kind === 'length') clean = line.length;
      const leftMs = left(line.update);
      const loss = line.kind === 'update' ? line.loss : undefined;
      progress.update(line.update, { loss, accepted: clean, leftMs: leftMs && Math.round(leftMs) }, () => [
        ...describeLeft(leftMs),
        ...(loss === undefined ? [] : [`loss ${fixed(loss, 3)}`]),
        ...(clean === undefined ? [] : [`clean ${acceptedLengthText(clean)}`]),
      ]);
    },
    onAudit(name) {
      progress.note(`harden: ${auditTitles[name].toLowerCase()}`, { audit: name });
    },
    audit: createAuditProgress(progress, clock),
  };
}

function nameOf({ role, round, rounds }: RoundPlace, phase: 'search' | 'train'): string {
  const kind = role === 'hardened' ? '' : `${roleNames[role]}, `;
  return `${kind}round ${round}/${rounds}, ${phase}`;
}
