/** report.html and report.md of a hardening run, made from its result alone. */
import { basename } from 'node:path';
import { changeText, countText, durationText, groupThousands, percentText } from '../../core/number-text.js';
import type {
  AuditComparison,
  HardenedChange,
  HardeningResult,
} from '../../train/harden/hardening-result.js';
import {
  type Block,
  type Facts,
  type Report,
  cardBlock,
  describeModel,
  describeSettings,
  factsBlock,
  hashText,
  limitsBlock,
  section,
  sentencesBlock,
  tableBlock,
  writeReport,
} from '../document.js';
import { type Content, escapeMarkdown, fragment } from '../markup.js';
import { attackMark, cleanMark, drawIntervals } from '../chart.js';
import type { Figure, Opening } from '../page.js';
import { intervalCell, negateInterval } from '../table.js';
import * as words from './hardening-words.js';

/**
 * @example
 * if (outcome.status === 'complete') await writeHardeningReports(outcome.folder, outcome.result);
 */
export const writeHardeningReports = (folder: string, result: HardeningResult) =>
  writeReport(folder, createHardeningReport(result));

export function createHardeningReport(result: HardeningResult): Report {
  return {
    title: `Mistletoe hardening of ${result.from.name} for ${result.target.name}`,
    brand: 'Mistletoe hardening',
    subject: `${describeSubject(result)}, in ${describeTimes(result)}`,
    opening: describeOpening(result),
    sections: [
      section(
        ['audits', 'Audits', 'Audits before and after'],
        'Every drafter was attacked again, each against its own weights, with prompts, seeds and a suffix length that training never saw.',
        ...result.audits.map(describeAuditBlock),
      ),
      section(
        ['rounds', 'Rounds', 'Rounds of attack and training'],
        'Each round searches suffixes against the current drafter, lets the target answer the prompts with these suffixes, and trains on the answers mixed with clean ones.',
        cardBlock(undefined, tableBlock(words.roundTable(result), 'Rounds', [words.roundLegend])),
      ),
      section(
        ['setup', 'Setup', 'Data, settings and machine'],
        'The same request on the same machine gives the same drafters, byte for byte, even if the run was interrupted.',
        cardBlock(undefined, factsBlock(listFacts(result))),
        limitsBlock([
          'Anyone who has the hardened drafter can search against it again: the audits show how far that gets with this effort, and no more.',
          'The drafter was hardened against suffixes that keep the answer. Attacks by the prompt itself, or attacks that change the answer, are not covered.',
          'Drops and costs hold for the audited prompts; on others they may differ.',
        ]),
      ),
    ],
    imprint: `Mistletoe ${result.version} · ${result.schema}`,
  };
}

const tones = {
  smaller: ['robust', 'Hardened'],
  larger: ['collapsed', 'Worse'],
  unclear: ['inconclusive', 'No gain shown'],
  unknown: ['inconclusive', 'Not compared'],
  'too few': ['inconclusive', 'Not decided'],
} as const;

function describeOpening(result: HardeningResult): Opening {
  const [fresh] = result.audits;
  const change = words.findMainChange(result);
  const [tone, label] = tones[words.judgeOutcome(result)];
  return {
    tone,
    label,
    sentence: words.describeOutcome(result),
    picture: fresh === undefined ? null : drawLengths(fresh),
    figures: change === undefined ? [] : [{ figures: listFigures(change) }],
  };
}

const drawLengths = ({ rows }: AuditComparison): Content =>
  drawIntervals(
    rows.map(({ role, clean, attacked }) => ({
      name: words.roleNames[role],
      marks: [
        ...(clean === null ? [] : [{ style: cleanMark, value: clean }]),
        ...(attacked === null ? [] : [{ style: attackMark, value: attacked }]),
      ],
    })),
  );

function listFigures({ dropThen, dropNow, dropRatio, cleanLoss }: HardenedChange): Figure[] {
  const shares = [
    { interval: dropThen, label: 'drop under attack, before' },
    { interval: dropNow, label: 'drop under attack, hardened' },
    { interval: dropRatio, label: 'of the drop before is left' },
  ];
  const change = (value: number): string => changeText(value, 1);
  return [
    ...shares.flatMap(({ interval, label }) =>
      interval === null ? [] : [{ ...intervalCell(interval, percentText), label }],
    ),
    ...(cleanLoss === null
      ? []
      : [{ ...intervalCell(negateInterval(cleanLoss), change), label: 'accepted length without an attack' }]),
  ];
}

function describeAuditBlock(comparison: AuditComparison): Block {
  const { audit } = comparison;
  const link = `audits/${audit}/report.html`;
  const summary = words.describeAudit(comparison);
  return cardBlock(
    words.auditTitles[audit],
    {
      html: fragment`<p class="soft">${summary} · <a href="${link}">full report</a></p>`,
      print: () => [`${escapeMarkdown(summary)} ([report](${link}))`],
    },
    tableBlock(words.auditTable(comparison), words.auditTitles[audit]),
    sentencesBlock(words.describeComparison(comparison)),
  );
}

function describeSubject({ system, from, target, rounds }: HardeningResult): string {
  return `${from.name} (${system}) for ${target.name}, ${countText(rounds.hardened.length, 'round')} of attack and training`;
}

export function describeTimes({ times: { searchMs, trainingMs, auditMs } }: HardeningResult): string {
  return `${durationText(searchMs)} of searches, ${durationText(trainingMs)} of training and ${durationText(auditMs)} of audits`;
}

function listFacts(result: HardeningResult): Facts {
  const { request, audit, texts, target, from, device, machine, version } = result;
  const { training, hardening, data } = request;
  return [
    ['target', describeModel(target)],
    ['drafter before', describeModel(from)],
    [
      'data',
      `${basename(data.file)}, ${countText(texts.conversations, 'conversation')}, ${hashText(data.sha256)}; ${countText(texts.training.examples, 'text')} with ${groupThousands(texts.training.learntTokens)} tokens to learn, ${texts.heldOut.examples} held out`,
    ],
    ['hardening', describeSettings(hardening)],
    ['training', describeSettings(training)],
    [
      'audits',
      `${audit.names.join(', ')}; ${countText(audit.prompts, 'prompt')}, preset ${audit.preset}, seed ${audit.seed}, ${describeSettings(audit.settings)}`,
    ],
    ['software', `Mistletoe ${version}, Node ${machine.nodeVersion}`],
    ['machine', `${machine.processor}, ${device}; ${describeTimes(result)}`],
  ];
}
