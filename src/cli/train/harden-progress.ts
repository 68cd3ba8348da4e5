/** The progress of a hardening run: answers, then searches and training round by round, then audits. */
import { smallest } from '../../core/long-lists.js';
import { acceptedLengthText, countText, fixed } from '../../core/number-text.js';
import type { HardenEvents } from '../../train/harden/harden-run.js';
import type { RoundPlace } from '../../train/harden/hardening-rounds.js';
import { auditTitles, roleNames } from '../../report/harden/hardening-words.js';
import { createAuditProgress } from '../audit/audit-progress.js';
import { typedPath } from '../long-runs.js';
import type { Progress, ProgressClock } from '../progress.js';
import { describeLeft } from '../progress.js';
import { createPace, createTrainProgress } from './train-progress.js';

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
