/** A hardening run as report.md: the audits, the rounds and the setup. */
import { basename } from 'node:path';
import { escapeMarkdown } from '../escape.js';
import { countText, durationText, groupThousands, parameterText } from '../../core/number-text.js';
import type { HardeningResult } from '../../train/harden/hardening-result.js';
import type { Facts } from '../table.js';
import { factsMarkdown, tableMarkdown } from '../table.js';
import {
  auditTable,
  auditTitles,
  describeAudit,
  describeComparison,
  describeOutcome,
  resultLegend,
  roundLegend,
  roundTable,
} from './hardening-words.js';

export function renderHardeningMarkdown(result: HardeningResult): string {
  const lines = [
    `## ${escapeMarkdown(describeOutcome(result))}`,
    '',
    escapeMarkdown(`Mistletoe hardening: ${describeSubject(result)}, in ${describeTimes(result)}.`),
    '',
    ...result.audits.flatMap((comparison) => [
      `### ${auditTitles[comparison.audit]}`,
      '',
      `${escapeMarkdown(describeAudit(comparison))} ([report](audits/${comparison.audit}/report.html))`,
      '',
      ...tableMarkdown(auditTable(comparison)),
      '',
      ...describeComparison(comparison).map((sentence) => `- ${escapeMarkdown(sentence)}`),
      '',
    ]),
    `<sub>${resultLegend.map(escapeMarkdown).join(' · ')}</sub>`,
    '',
    '### Rounds of attack and training',
    '',
    ...tableMarkdown(roundTable(result)),
    '',
    `<sub>${escapeMarkdown(roundLegend)}</sub>`,
    '',
    '### Setup',
    '',
    ...factsMarkdown(listFacts(result)),
    '',
    ...hardeningLimits.map((limit) => `- ${escapeMarkdown(limit)}`),
  ];
  return `${lines.join('\n')}\n`;
}

export function describeSubject({ system, from, target, rounds }: HardeningResult): string {
  return `${from.name} (${system}) for ${target.name}, ${countText(rounds.hardened.length, 'round')} of attack and training`;
}

export function describeTimes({ times: { searchMs, trainingMs, auditMs } }: HardeningResult): string {
  return `${durationText(searchMs)} of searches, ${durationText(trainingMs)} of training and ${durationText(auditMs)} of audits`;
}

export const hardeningLimits: readonly string[] = [
  'Anyone who has the hardened drafter can search against it again: the audits show how far that gets with this effort, and no more.',
  'The drafter was hardened against suffixes that keep the answer. Attacks by the prompt itself, or attacks that change the answer, are not covered.',
  'Drops and costs hold for the audited prompts; on others they may differ.',
];

export function listFacts(result: HardeningResult): Facts {
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
      `${basename(data.file)}, ${countText(texts.conversations, 'conversation')}, ${hash(data.sha256)}; ${countText(texts.training.examples, 'text')} with ${groupThousands(texts.training.learntTokens)} tokens to learn, ${texts.heldOut.examples} held out`,
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
