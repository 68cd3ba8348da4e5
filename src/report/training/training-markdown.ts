/** A training run in words and tables, and its report.md. */
import { basename } from 'node:path';
import { escapeMarkdown } from '../escape.js';
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
import type { Facts, Row, Table } from '../table.js';
import { factsMarkdown, tableMarkdown } from '../table.js';
import { summariseLevels } from '../../train/training-result.js';
import type { LengthLine } from '../../train/loop/training-log.js';
import type { TrainingResult } from '../../train/training-result.js';
import { nameStart } from '../../train/training-start.js';

export function renderTrainingMarkdown(result: TrainingResult): string {
  const { chain } = result.settings;
  const lengths = lengthTable(result);
  const levels = levelTable(result);
  const lines = [
    `## ${escapeMarkdown(describeOutcome(result))}`,
    '',
    escapeMarkdown(
      `Mistletoe training: ${describeSubject(result)}; ${describeEnd(result)}, in ${durationText(result.elapsedMs)}.`,
    ),
    '',
    ...(lengths === undefined ? ['No text was held out: nothing was measured.'] : tableMarkdown(lengths)),
    '',
    ...(lengths === undefined
      ? []
      : [
          `<sub>**accepted length**: tokens per step on held-out texts, with drafts of ${chain} · **token 1** and on: steps that accept the draft up to there</sub>`,
          '',
        ]),
    ...(levels === undefined ? [] : [...tableMarkdown(levels), '', `<sub>${levelLegend}</sub>`, '']),
    `${escapeMarkdown(describeTexts(result))}.`,
    '',
    ...factsMarkdown(listFacts(result)),
  ];
  return `${lines.join('\n')}\n`;
}

/** Fewer held-out texts cannot show that training helped. */
export const minHeldOutTexts = 5;

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

export function describeSubject(result: TrainingResult): string {
  const { system, target, parameterCount } = result;
  return `${system} for ${target.name}, ${parameterText(parameterCount)}, from ${nameStart(result)}`;
}

const endings = { steps: '', patience: ', stopped early', interrupted: ', interrupted' };

export function describeEnd({ updates, ended }: TrainingResult): string {
  return `${groupThousands(updates)} ${updates === 1 ? 'update' : 'updates'}${endings[ended]}`;
}

export function describeTexts({ data }: TrainingResult): string {
  const { training, heldOut, cutConversations } = data;
  return [
    `${countText(training.examples, 'text')} with ${groupThousands(training.learntTokens)} tokens to learn, ${heldOut.examples} held out`,
    ...(training.cut === 0 ? [] : [`${training.cut} cut to the max length`]),
    ...(training.withoutLearnt === 0
      ? []
      : [`${training.withoutLearnt} left out because they have nothing to learn`]),
    ...(cutConversations === 0
      ? []
      : [`${countText(cutConversations, 'conversation')} longer than the target’s context`]),
  ].join('; ');
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

export const levelLegend =
  'Cross-entropy is the mean over the counted rows, in the first and the last tenth of the updates. Deeper tokens have fewer rows: drafts end with their text, and only tokens of the draft vocabulary count.';

/** Undefined for logs without row counts. */
export function levelTable({ log }: TrainingResult): Table | undefined {
  const levels = summariseLevels(log);
  if (levels.length === 0) return undefined;
  const entropy = (value: number): string => (Number.isNaN(value) ? '–' : fixed(value, 3));
  return {
    columns: ['drafted', 'cross-entropy (nats), first tenth', 'last tenth', 'rows counted'],
    rows: levels.map(({ first, last, rows }, level) => ({
      cells: [`token ${level + 1}`, entropy(first), entropy(last), groupThousands(rows)],
    })),
  };
}

export function listFacts(result: TrainingResult): Facts {
  const { data, settings, target, from, device, machine, version } = result;
  const { draftVocabulary } = data;
  const hash = (sha256: string): string => `sha256 ${sha256.slice(0, 16)}…`;
  const set = Object.entries(settings).map(([name, value]) => `${name} ${String(value)}`);
  return [
    ['target', `${target.name}, ${parameterText(target.parameterCount)}, ${hash(target.sha256)}`],
    ...(from === undefined ? [] : [['continued from', `${from.name}, ${hash(from.sha256)}`] as const]),
    [
      'data',
      `${basename(data.file)}, ${countText(data.conversations, 'conversation')}, ${hash(data.sha256)}`,
    ],
    ['texts', describeTexts(result)],
    ['batches', describeBatches(result)],
    ...(draftVocabulary === undefined
      ? []
      : [['draft vocabulary', describeVocabulary(draftVocabulary)] as const]),
    ['settings', set.join(', ')],
    ['software', `Mistletoe ${version}, Node ${machine.nodeVersion}`],
    ['machine', `${machine.processor}, ${device}; ${durationText(result.elapsedMs)} of training`],
  ];
}

function describeBatches({ data, updates, settings }: TrainingResult): string {
  const { batchesPerEpoch, paddingShare } = data.batches;
  const epochs = (updates * settings.accumulation) / batchesPerEpoch;
  const how = { padded: 'texts of similar length together', packed: 'several texts per row' }[settings.rows];
  return `${groupThousands(batchesPerEpoch)} of up to ${groupThousands(settings.batchTokens)} tokens, ${how}: ${percentText(paddingShare)} of them padding; ${fixed(epochs, 1)} epochs`;
}

function describeVocabulary({
  size,
  coverage,
}: {
  readonly size: number;
  readonly coverage: number;
}): string {
  return `${groupThousands(size)} tokens, which are ${fixed(100 * coverage, 2)} % of the learned tokens`;
}
