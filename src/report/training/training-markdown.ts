/** A training run in words and tables, for report.md and, sentence by sentence, for whoever else tells of it. */
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
import type { TrainingResult } from '../../train/training-result.js';
import { summariseLevels } from '../../train/training-result.js';
import type { LengthLine } from '../../train/loop/training-log.js';
import { nameStart } from '../../train/systems/training-start.js';

export function renderTrainingMarkdown(result: TrainingResult): string {
  const lines = [
    `## ${describeOutcome(result)} · Mistletoe training`,
    '',
    escapeMarkdown(
      `${describeSubject(result)}: ${describeEnd(result)}, in ${durationText(result.elapsedMs)}.`,
    ),
    '',
    ...drawLengths(result),
    ...drawLevelTable(result),
    `${escapeMarkdown(describeTexts(result))}.`,
    '',
    '| | |',
    '| --- | --- |',
    ...listFacts(result).map(([name, value]) => `| ${escapeMarkdown(name)} | ${escapeMarkdown(value)} |`),
  ];
  return `${lines.join('\n')}\n`;
}

/** The run in three words. */
export function describeOutcome({ lengths, updates }: TrainingResult): string {
  if (lengths === undefined) return countText(updates, 'update');
  const { first, best } = lengths;
  return `${acceptedLengthText(first.length)} to ${acceptedLengthText(best.length)} tokens a step`;
}

export function describeSubject(result: TrainingResult): string {
  const { system, target, parameterCount } = result;
  return `${system} for ${target.name}, ${parameterText(parameterCount)}, from ${nameStart(result)}`;
}

const endings = { steps: '', patience: ', ended by its patience', interrupted: ', interrupted' };

export function describeEnd({ updates, ended }: TrainingResult): string {
  return `${groupThousands(updates)} ${updates === 1 ? 'update' : 'updates'}${endings[ended]}`;
}

export function describeTexts({ data }: TrainingResult): string {
  const { training, heldOut, cutConversations } = data;
  return [
    `${countText(training.examples, 'text')} with ${groupThousands(training.learntTokens)} tokens to foresee, ${heldOut.examples} held out`,
    ...(training.cut === 0 ? [] : [`${training.cut} cut to the longest length`]),
    ...(training.withoutLearnt === 0 ? [] : [`${training.withoutLearnt} left out, with nothing to learn`]),
    ...(cutConversations === 0
      ? []
      : [`${countText(cutConversations, 'conversation')} longer than the target’s context`]),
  ].join('; ');
}

/** Measurements that a table shows, with what each is called. */
export function listLengths({ lengths }: TrainingResult): readonly (readonly [string, LengthLine])[] {
  if (lengths === undefined) return [];
  return [
    ['before', lengths.first],
    ['best', lengths.best],
    ['after', lengths.last],
  ];
}

function drawLengths(result: TrainingResult): string[] {
  const { lengths, settings } = result;
  if (lengths === undefined) return ['No text was held out: nothing was measured.', ''];
  const levels = Array.from({ length: settings.chain }, (_, level) => `token ${level + 1}`);
  return [
    `| | accepted length | change | after update | ${levels.join(' | ')} |`,
    `| --- | ---: | ---: | ---: | ${levels.map(() => '---:').join(' | ')} |`,
    ...listLengths(result).map(([name, line]) => {
      const change = name === 'before' ? '–' : changeText(line.length / lengths.first.length - 1);
      const reached = line.reached.map((share) => percentText(share));
      return `| ${[name, acceptedLengthText(line.length), change, groupThousands(line.update), ...reached].join(' | ')} |`;
    }),
    '',
    `<sub>**accepted length**: tokens a step on held-out texts, with drafts of ${settings.chain} · **token 1** and on: steps that accept the draft up to there</sub>`,
    '',
  ];
}

/** Rows of a table: token, cross-entropy in the first and in the last tenth of the updates, rows. */
export function listLevels({ log }: TrainingResult): readonly (readonly string[])[] {
  return summariseLevels(log).map(({ first, last, rows }, level) => [
    ...[`token ${level + 1}`, entropyText(first), entropyText(last), groupThousands(rows)],
  ]);
}

export const levelHeadings = ['cross-entropy (nats), first tenth', 'last tenth', 'rows counted'] as const;

const entropyText = (value: number): string => (Number.isNaN(value) ? '–' : fixed(value, 3));

function drawLevelTable(result: TrainingResult): string[] {
  const levels = listLevels(result);
  if (levels.length === 0) return [];
  return [
    `| drafted | ${levelHeadings.join(' | ')} |`,
    `| --- | ${levelHeadings.map(() => '---:').join(' | ')} |`,
    ...levels.map((cells) => `| ${cells.join(' | ')} |`),
    '',
    '<sub>**cross-entropy**: mean over the rows that count, in the first and the last tenth of the updates. Deeper tokens have fewer rows: drafts end with their text, and only tokens of the draft vocabulary count.</sub>',
    '',
  ];
}

/** Data, settings and machine, by name. */
export function listFacts(result: TrainingResult): readonly (readonly [string, string])[] {
  const { data, settings, target, from, device, machine, version } = result;
  const { draftVocabulary } = data;
  const hash = (sha256: string): string => `sha256 ${sha256.slice(0, 16)}…`;
  const set = Object.entries(settings).map(([name, value]) => `${name} ${String(value)}`);
  return [
    ['target', `${target.name}, ${parameterText(target.parameterCount)}, ${hash(target.sha256)}`],
    ...(from === undefined ? [] : [['gone on from', `${from.name}, ${hash(from.sha256)}`] as const]),
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
  const how = { padded: 'texts of like length together', packed: 'several texts in a row' }[settings.rows];
  return `${groupThousands(batchesPerEpoch)} of up to ${groupThousands(settings.batchTokens)} tokens, ${how}: ${percentText(paddingShare)} of them padding; ${fixed(epochs, 1)} times through`;
}

function describeVocabulary({
  size,
  coverage,
}: {
  readonly size: number;
  readonly coverage: number;
}): string {
  return `${groupThousands(size)} tokens, which are ${fixed(100 * coverage, 2)} % of what is learnt`;
}
