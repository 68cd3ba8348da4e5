/** A hardening run as report.md: what the audits say, round by round what was done, and the setup. */
import { basename } from 'node:path';
import { escapeMarkdown } from '../escape.js';
import { countText, durationText, groupThousands, parameterText } from '../../core/number-text.js';
import type { HardeningResult } from '../../train/harden/hardening-result.js';
import {
  auditTitles,
  describeAudit,
  describeComparison,
  describeOutcome,
  listRounds,
  listRows,
  resultColumns,
  resultLegend,
  roundColumns,
  roundLegend,
} from './hardening-words.js';

export function renderHardeningMarkdown(result: HardeningResult): string {
  const lines = [
    `## ${describeOutcome(result)} · Mistletoe hardening`,
    '',
    escapeMarkdown(`${describeSubject(result)}, in ${describeTimes(result)}.`),
    '',
    ...result.audits.flatMap((comparison) => [
      `### ${auditTitles[comparison.audit]}`,
      '',
      `${escapeMarkdown(describeAudit(comparison))} ([report](audits/${comparison.audit}/report.html))`,
      '',
      ...drawTable(resultColumns, listRows(comparison)),
      '',
      ...describeComparison(comparison).map((sentence) => `- ${escapeMarkdown(sentence)}`),
      '',
    ]),
    `<sub>${resultLegend.map(escapeMarkdown).join(' · ')}</sub>`,
    '',
    '### Rounds',
    '',
    ...drawTable(roundColumns, listRounds(result)),
    '',
    `<sub>${escapeMarkdown(roundLegend)}</sub>`,
    '',
    '### Setup',
    '',
    '| | |',
    '| --- | --- |',
    ...listFacts(result).map(([name, value]) => `| ${escapeMarkdown(name)} | ${escapeMarkdown(value)} |`),
    '',
    ...hardeningLimits.map((limit) => `- ${escapeMarkdown(limit)}`),
  ];
  return `${lines.join('\n')}\n`;
}

function drawTable(columns: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const draw = (cells: readonly string[]): string => `| ${cells.map(escapeMarkdown).join(' | ')} |`;
  const rule = columns.map((_, index) => (index === 0 ? '---' : '---:'));
  return [draw(columns), `| ${rule.join(' | ')} |`, ...rows.map(draw)];
}

export function describeSubject({ system, from, target, rounds }: HardeningResult): string {
  return `${from.name} (${system}) for ${target.name}, ${countText(rounds.hardened.length, 'round')} of attack and training`;
}

export function describeTimes({ times: { searchMs, trainingMs, auditMs } }: HardeningResult): string {
  return `${durationText(searchMs)} of searches, ${durationText(trainingMs)} of training and ${durationText(auditMs)} of audits`;
}

/** What no table of the report can say. */
export const hardeningLimits: readonly string[] = [
  'Whoever has the hardened drafter can search again, against it: the audits show how far that goes with this effort, and no more.',
  'Hardened against suffixes that keep the answer. Attacks by the prompt itself, or that change the answer, are not trained on.',
  'Drops and prices are of the prompts that were audited; on others they may differ.',
];

/** Data, settings and machine, by name. */
export function listFacts(result: HardeningResult): readonly (readonly [string, string])[] {
  const { request, audit, texts, target, from, device, machine, version } = result;
  const { training, hardening, data } = request;
  const hash = (sha256: string): string => `sha256 ${sha256.slice(0, 16)}…`;
  const list = (settings: object): string =>
    Object.entries(settings)
      .map(([name, value]) => `${name} ${Array.isArray(value) ? value.join('+') : String(value)}`)
      .join(', ');
  return [
    ['target', `${target.name}, ${parameterText(target.parameterCount)}, ${hash(target.sha256)}`],
    ['drafter before', `${from.name}, ${parameterText(from.parameterCount)}, ${hash(from.sha256)}`],
    [
      'data',
      `${basename(data.file)}, ${countText(texts.conversations, 'conversation')}, ${hash(data.sha256)}; ${countText(texts.training.examples, 'text')} with ${groupThousands(texts.training.learntTokens)} tokens to foresee, ${texts.heldOut.examples} held out`,
    ],
    ['hardening', list(hardening)],
    ['training', list(training)],
    [
      'audits',
      `${audit.names.join(', ')}; ${countText(audit.prompts, 'prompt')}, preset ${audit.preset}, seed ${audit.seed}, ${list(audit.settings)}`,
    ],
    ['software', `Mistletoe ${version}, Node ${machine.nodeVersion}`],
    ['machine', `${machine.processor}, ${device}; ${describeTimes(result)}`],
  ];
}
