/** The audit as a comment for a pull request: the verdict, one table, and how to run it again. Under 60 lines. */
import type { ArmSummary, AuditResult, AuditTimings, DrafterResult } from '../audit/result.js';
import { armLabels } from './arm-names.js';
import { escapeMarkdown } from './escape.js';
import {
  acceptedLengthText,
  countText,
  divergenceText,
  durationText,
  parameterText,
  percentText,
  pValueText,
  speedupText,
} from './number-text.js';
import { summariseTimings } from './timing-summary.js';
import type { Verdict, VerdictLevel } from './verdict.js';

const marks: Readonly<Record<VerdictLevel, string>> = {
  robust: '🟢 Robust',
  fragile: '🟠 Fragile',
  collapsed: '🔴 Collapsed',
  inconclusive: '⚪ Inconclusive',
};
/** Beyond this many drafters the table keeps the rows that the verdict rests on. */
const mostDraftersInFull = 4;
const mostDrafters = 8;

export function renderMarkdown(result: AuditResult, timings: AuditTimings, verdict: Verdict): string {
  const shown = result.drafters.slice(0, mostDrafters);
  const lines = [
    `## ${marks[verdict.level]} · Mistletoe audit`,
    '',
    escapeMarkdown(verdict.headline),
    '',
    ...describeFailures(verdict),
    '| drafter | row | accepted length (95 %) | speedup | KL (nats) | answer kept | n |',
    '| --- | --- | ---: | ---: | ---: | ---: | ---: |',
    ...shown.flatMap((drafter) => drawRows(drafter, timings, result.drafters.length > mostDraftersInFull)),
    '',
    ...shown.map((drafter) => describeTests(drafter)),
    ...(shown.length < result.drafters.length
      ? [`- and ${countText(result.drafters.length - shown.length, 'more drafter')}: see the HTML report.`]
      : []),
    '',
    describeSetup(result, timings),
    '',
    '```sh',
    oneLine(result.setup.command),
    '```',
  ];
  return `${lines.join('\n')}\n`;
}

function describeFailures({ failures, exitCode }: Verdict): string[] {
  if (failures.length === 0) return [];
  const title = exitCode === 100 ? '**Gate failed.**' : '**Incomplete.**';
  const shown = failures.slice(0, 3).map(escapeMarkdown).join(' ');
  const more = failures.length > 3 ? ` And ${countText(failures.length - 3, 'more failure')}.` : '';
  return [`${title} ${shown}${more}`, ''];
}

function drawRows({ drafter, summary }: DrafterResult, timings: AuditTimings, brief: boolean): string[] {
  const rows = brief
    ? summary.arms.filter(({ arm }) => arm === 'clean' || arm === 'random' || arm === 'attack')
    : summary.arms;
  const name = escapeMarkdown(drafter);
  if (rows.length === 0) return [`| ${name} | nothing audited | – | – | – | – | 0 |`];
  return rows.map((row) => {
    const { estimate, low, high, n } = row.meanAcceptedLength;
    const bold = row.arm === 'attack' ? '**' : '';
    const length = `${bold}${acceptedLengthText(estimate)}${bold} (${acceptedLengthText(low)} to ${acceptedLengthText(high)})`;
    const speedup = speedupText(summariseTimings(timings, drafter, row.arm).speedup);
    const cells = [
      name,
      `${bold}${armLabels[row.arm]}${bold}`,
      length,
      speedup,
      ...preservationCells(row),
      n,
    ];
    return `| ${cells.join(' | ')} |`;
  });
}

function preservationCells(row: ArmSummary): string[] {
  return row.arm === 'clean' ? ['–', '–'] : [divergenceText(row.divergence), percentText(row.editSimilarity)];
}

function describeTests({ drafter, summary }: DrafterResult): string {
  const { drop, againstClean, againstRandom, promptsAudited, promptsSkipped } = summary;
  const counted = `${countText(promptsAudited, 'prompt')} audited, ${promptsSkipped} skipped`;
  if (promptsAudited === 0) return `- ${escapeMarkdown(drafter)}: ${counted}`;
  return (
    `- ${escapeMarkdown(drafter)}: drop ${percentText(drop.estimate)} ` +
    `(${percentText(drop.low)} to ${percentText(drop.high)}), ${pValueText(againstClean.pValue)} against no suffix, ` +
    `${pValueText(againstRandom.pValue)} against random tokens; ${counted}`
  );
}

function describeSetup({ setup }: AuditResult, timings: AuditTimings): string {
  const { target, preset, seed, version } = setup;
  return (
    `Target ${escapeMarkdown(target.name)} (${parameterText(target.parameterCount)}), preset ${escapeMarkdown(preset)}, ` +
    `seed ${seed}, Mistletoe ${escapeMarkdown(version)}, search ${durationText(timings.searchMs)} on ` +
    `${escapeMarkdown(timings.machine)}. Run it again:`
  );
}

/** Inside a fence only another fence could end it. */
function oneLine(command: string): string {
  return command.replace(/\s+/g, ' ').replace(/```/g, "'''");
}
