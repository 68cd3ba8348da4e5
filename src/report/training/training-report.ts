/** report.html and report.md of a training run, made from its result alone. */
import { basename } from 'node:path';
import {
  acceptedLengthText,
  changeText,
  countText,
  durationText,
  fixed,
  groupThousands,
  parameterText,
  percentText,
} from '../../core/number-text.js';
import type { LengthLine, UpdateLine } from '../../train/loop/training-state.js';
import { nameStart } from '../../train/training-start.js';
import { type MeasuredLengths, type TrainingResult, summariseLevels } from '../../train/train-run.js';
import {
  type Facts,
  type Report,
  type Section,
  cardBlock,
  describeModel,
  describeSettings,
  factsBlock,
  hashText,
  limitsBlock,
  pictureBlock,
  section,
  sentencesBlock,
  tableBlock,
  writeReport,
} from '../document.js';
import type { Interval } from '../../measure/statistics.js';
import { fragment } from '../markup.js';
import { type Opening, drawCard } from '../page.js';
import { type Row, type Table, intervalCell } from '../table.js';
import { drawLengthCurve, drawLevels, drawReached, drawValue } from './training-charts.js';

/**
 * @example
 * if (outcome.status === 'complete') await writeTrainingReports(outcome.folder, outcome.result);
 */
export const writeTrainingReports = (folder: string, result: TrainingResult) =>
  writeReport(folder, createTrainingReport(result));

export function createTrainingReport(result: TrainingResult): Report {
  const updates = result.log.filter((line): line is UpdateLine => line.kind === 'update');
  return {
    title: `Mistletoe training of ${result.system} for ${result.target.name}`,
    brand: 'Mistletoe training',
    subject: `${describeSubject(result)}; ${describeEnd(result)}, in ${durationText(result.elapsedMs)}`,
    opening: describeOpening(result),
    sections: [
      describeAcceptance(result),
      ...(updates.length === 0 ? [] : [describeLearning(result, updates)]),
      describeSetup(result),
    ],
    imprint: `Mistletoe ${result.version} · ${result.schema}`,
  };
}

/** Fewer held-out texts cannot show that training helped. */
const minHeldOutTexts = 5;

function describeOpening(result: TrainingResult): Opening {
  const { lengths, data } = result;
  const measured = result.log.filter((line): line is LengthLine => line.kind === 'length');
  const isEnough = data.heldOut.examples >= minHeldOutTexts;
  const isBetter = isEnough && lengths !== undefined && lengths.best.length > lengths.first.length;
  const gain = lengths && {
    ...intervalCell(changeInterval(lengths), (change) => changeText(change)),
    label: `accepted length, best against before, by steps of ${countText(data.heldOut.examples, 'text')}`,
  };
  return {
    tone: isBetter ? 'robust' : 'inconclusive',
    label: judgeTraining(isBetter, lengths !== undefined && isEnough),
    sentence: describeOutcome(result),
    picture: lengths === undefined ? null : drawLengthCurve(measured, lengths),
    meaning: describeMeaning(result),
    figures: gain === undefined ? [] : [{ figures: [gain] }],
  };
}

function judgeTraining(isBetter: boolean, isDecided: boolean): string {
  if (isBetter) return 'Trained';
  return isDecided ? 'No gain' : 'Not decided';
}

/** What training changed, in about 20 words. */
export function describeOutcome({ lengths, updates, data }: TrainingResult): string {
  if (lengths === undefined)
    return `${countText(updates, 'update')}; no text was held out, so the accepted length was not measured.`;
  const { first, best } = lengths;
  const texts = countText(data.heldOut.examples, 'held-out text');
  const values = `${acceptedLengthText(first.length)} to ${acceptedLengthText(best.length)} tokens per step`;
  if (data.heldOut.examples < minHeldOutTexts)
    return `${texts} ${data.heldOut.examples === 1 ? 'is' : 'are'} too few to tell whether training helped: accepted length ${values}.`;
  return best.update === 0
    ? `Training did not help: no update accepted more than ${acceptedLengthText(first.length)} tokens per step on ${texts}.`
    : `The accepted length rose from ${values} on ${texts}, after ${countText(best.update, 'update')}.`;
}

/**
 * 95 % interval of the change, from the spread of accepted tokens between steps. The log has no counts by text, so
 * steps of one text count as independent, and the interval is somewhat too narrow.
 */
function changeInterval({ first, best }: MeasuredLengths): Interval {
  const relativeVariance = ({ length, steps, reached }: LengthLine): number => {
    const squares = reached.reduce((sum, share, level) => sum + (2 * level + 1) * share, 0);
    return Math.max(0, squares - (length - 1) ** 2) / steps / length ** 2;
  };
  const ratio = best.length / first.length;
  const margin = 1.96 * ratio * Math.sqrt(relativeVariance(first) + relativeVariance(best));
  const n = best === first ? 1 : Math.min(first.steps, best.steps);
  return { estimate: ratio - 1, low: ratio - margin - 1, high: ratio + margin - 1, n };
}

function describeSubject(result: TrainingResult): string {
  const { system, target, parameterCount } = result;
  return `${system} for ${target.name}, ${parameterText(parameterCount)}, from ${nameStart(result)}`;
}

const endings = { steps: '', patience: ', stopped early', interrupted: ', interrupted' };

export function describeEnd({ updates, ended }: TrainingResult): string {
  return `${groupThousands(updates)} ${updates === 1 ? 'update' : 'updates'}${endings[ended]}`;
}

function describeMeaning({ lengths, settings, data }: TrainingResult): string {
  if (lengths === undefined)
    return 'No text was held out, so this report cannot say how well the drafter predicts unseen text: mistletoe bench measures that.';
  const { best, last } = lengths;
  const measured = `Measured on ${data.heldOut.examples} texts that were not trained on, along the target’s answers, with drafts of ${settings.chain} tokens.`;
  if (best.update === 0) return `${measured} No update improved it: best/ is the starting point.`;
  return best.update === last.update
    ? `${measured} The last measurement is the best one: more updates or more texts may help.`
    : `${measured} Later updates did not help: best/ is from before them.`;
}

function describeAcceptance(result: TrainingResult): Section {
  const { lengths, settings } = result;
  const table = lengthTable(result);
  return section(
    ['acceptance', 'Acceptance', 'How many draft tokens are accepted'],
    'Tokens per step on held-out texts: accepted draft tokens plus the target’s own. At 1, drafting does not help.',
    ...(table === undefined || lengths === undefined
      ? [sentencesBlock(['No text was held out: nothing was measured.'])]
      : [
          cardBlock(
            undefined,
            tableBlock(table, 'Accepted length before and after training', [
              `accepted length: tokens per step on held-out texts, with drafts of ${settings.chain}; token 1 and on: steps that accept the draft up to there`,
            ]),
          ),
          pictureBlock(drawCard('Steps that accept the draft up to each depth', drawReached(lengths))),
        ]),
  );
}

/** Undefined where no text was held out. */
export function lengthTable({ lengths, settings }: TrainingResult): Table | undefined {
  if (lengths === undefined) return undefined;
  const row = (name: string, line: LengthLine): Row => ({
    cells: [
      name,
      acceptedLengthText(line.length),
      line === lengths.first ? '–' : changeText(line.length / lengths.first.length - 1),
      groupThousands(line.update),
      ...line.reached.map((share) => percentText(share)),
    ],
  });
  const depths = Array.from({ length: settings.chain }, (_, depth) => `token ${depth + 1}`);
  return {
    columns: ['', 'accepted length', 'change', 'after update', ...depths],
    rows: [row('before', lengths.first), row('best', lengths.best), row('after', lengths.last)],
  };
}

const levelLegend =
  'Cross-entropy is the mean over the counted rows, in the first and the last tenth of the updates. Deeper tokens have fewer rows: drafts end with their text, and only tokens of the draft vocabulary count.';

/** Single values of an update; parts of the loss that only some systems have are left out elsewhere. */
const curves = [
  ['loss', 'Loss', 'loss per token'],
  ['distance', 'L1 distance to the target’s distribution', 'L1 distance, 0 to 2'],
  ['confidence', 'Cross-entropy of the confidence head', 'cross-entropy (nats)'],
  ['rate', 'Learning rate', 'learning rate'],
  ['norm', 'Gradient norm before clipping', 'gradient norm'],
] as const;

function describeLearning(result: TrainingResult, updates: readonly UpdateLine[]): Section {
  const measured = curves.filter(([name]) => updates.some((line) => line[name] !== undefined));
  const charts = fragment`<p class="soft small">Thin lines are single updates, thick lines are smoothed.</p><div class="grid">
${drawCard('Cross-entropy of each drafted token', drawLevels(updates))}
${measured.map(([name, title, label]) => drawCard(title, drawValue(updates, name, label)))}
</div>`;
  const table = tableBlock(levelTable(result), 'Cross-entropy by drafted token', [levelLegend]);
  return section(
    ['learning', 'Learning', 'Loss and learning rate'],
    'The loss is the weighted objective; the cross-entropy shows each drafted token separately. If the loss falls while the accepted length does not rise, the drafter memorizes its texts: train on more of them.',
    pictureBlock(charts),
    cardBlock(undefined, table),
  );
}

function levelTable({ log }: TrainingResult): Table {
  const entropy = (value: number): string => (Number.isNaN(value) ? '–' : fixed(value, 3));
  return {
    columns: ['drafted', 'cross-entropy (nats), first tenth', 'last tenth', 'rows counted'],
    rows: summariseLevels(log).map(({ first, last, rows }, level) => ({
      cells: [`token ${level + 1}`, entropy(first), entropy(last), groupThousands(rows)],
    })),
  };
}

const describeSetup = (result: TrainingResult): Section =>
  section(
    ['setup', 'Setup', 'Data, settings and machine'],
    'The same request on the same machine gives the same weights, byte for byte, even if the run was interrupted.',
    cardBlock(undefined, factsBlock(listFacts(result))),
    limitsBlock([
      'Held-out texts come from the same file as the training texts: on other questions drafts may be accepted less.',
      'The accepted length is for greedy chains along the target’s answers; trees accept more, sampling accepts less. mistletoe bench measures both, with speed.',
      'This report does not say how the drafter behaves under attack: mistletoe audit does.',
    ]),
  );

export function describeTexts({ data }: TrainingResult): string {
  const { training, heldOut, cutConversations } = data;
  const parts = [
    `${countText(training.examples, 'text')} with ${groupThousands(training.learntTokens)} tokens to learn, ${heldOut.examples} held out`,
  ];
  if (training.cut > 0) parts.push(`${training.cut} cut to the max length`);
  if (training.withoutLearnt > 0)
    parts.push(`${training.withoutLearnt} left out because they have nothing to learn`);
  if (cutConversations > 0)
    parts.push(`${countText(cutConversations, 'conversation')} longer than the target’s context`);
  return parts.join('; ');
}

function listFacts(result: TrainingResult): Facts {
  const { data, settings, target, from, device, machine, version } = result;
  const { draftVocabulary } = data;
  const facts: (readonly [string, string | undefined])[] = [
    ['target', describeModel(target)],
    ['continued from', from && `${from.name}, ${hashText(from.sha256)}`],
    ['data', `${basename(data.file)}, ${countText(data.conversations, 'conversation')}, ${hashText(data.sha256)}`], // prettier-ignore
    ['texts', describeTexts(result)],
    ['batches', describeBatches(result)],
    ['draft vocabulary', draftVocabulary && `${groupThousands(draftVocabulary.size)} tokens, which are ${fixed(100 * draftVocabulary.coverage, 2)} % of the learned tokens`], // prettier-ignore
    ['settings', describeSettings(settings)],
    ['software', `Mistletoe ${version}, Node ${machine.nodeVersion}`],
    ['machine', `${machine.processor}, ${device}; ${durationText(result.elapsedMs)} of training`],
  ];
  return facts.flatMap(([name, value]) => (value === undefined ? [] : [[name, value] as const]));
}

function describeBatches({ data, updates, settings }: TrainingResult): string {
  const { batchesPerEpoch, paddingShare } = data.batches;
  const epochs = (updates * settings.accumulation) / batchesPerEpoch;
  const how = { padded: 'texts of similar length together', packed: 'several texts per row' }[settings.rows];
  return `${groupThousands(batchesPerEpoch)} of up to ${groupThousands(settings.batchTokens)} tokens, ${how}: ${percentText(paddingShare)} of them padding; ${fixed(epochs, 1)} epochs`;
}
