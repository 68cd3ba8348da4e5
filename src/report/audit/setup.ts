/** How the numbers came to be, how to get them again, and what they do not say. */
import { arms, type AuditResult, type DrafterResult, type SearchTrace } from '../../audit/result.js';
import type { AuditTimings } from '../../audit/arms/phase-clock.js';
import { armLabels, armPurposes, findArm } from './audit-words.js';
import {
  acceptedLengthText,
  durationText,
  groupThousands,
  parameterText,
  speedupText,
} from '../../core/number-text.js';
import { paperTable, phaseLegend, phaseTable, summariseTimings, workerTable } from './timing-summary.js';
import { type Table, factsHtml, tableHtml } from '../table.js';
import { limitsBlock } from '../document.js';
import { type Content, type Markup, fragment } from '../markup.js';

export function drawSetup(result: AuditResult, timings: AuditTimings): Markup {
  const { setup } = result;
  const { target, drafters, options } = setup;
  const phases = phaseTable(timings);
  const given = Object.entries(options).map(([name, value]) => `${name} ${String(value)}`);
  const measured = arms.filter((arm) =>
    result.drafters.some(({ summary }) => findArm(summary, arm) !== undefined),
  );
  const hash = (sha256: string): Markup =>
    fragment`<code title="${sha256}">sha256 ${sha256.slice(0, 16)}…</code>`;
  const identify = ({ name, parameterCount, sha256 }: typeof target): Markup =>
    fragment`${name}, ${parameterText(parameterCount)}, ${hash(sha256)}`;
  return fragment`<h2>What each row is for</h2>
<div class="card">${factsHtml(measured.map((arm) => [armLabels[arm], armPurposes[arm]]))}
${result.drafters.map((drafter) => [describeRepeat(drafter, timings), describeEffort(drafter)])}</div>
${drawTable(paperTable(result, timings), paperTitle, paperNote, paperTitle)}
${phases && fragment`${drawTable(phases, 'Time by phase', phaseNote, 'Where the time went')}\n${drawTable(workerTable(timings), 'Workers', workerNote)}`}
<h2>Setup and how to reproduce</h2>
<div class="card">${factsHtml([
    ['target', identify(target)],
    ...drafters.map(
      (drafter) =>
        [
          `drafter ${drafter.id}`,
          fragment`${drafter.system}, ${drafter.policy}, ${identify(drafter)}`,
        ] as const,
    ),
    ['prompts', setup.promptCount],
    ['preset', setup.preset],
    ['options', given.join(', ')],
    ['seed', setup.seed],
    ['software', `Mistletoe ${setup.version}, Node ${setup.node}`],
    ['machine', `${timings.machine}; the audit took ${durationText(timings.totalMs)}`],
  ])}<pre class="command"><code>${setup.command}</code></pre>
<p class="soft small">The same seed on the same machine gives the same result.json, byte for byte; times differ from run to run.</p></div>
${limitsBlock(limits).html}`;
}

/** Nothing where there is no table. */
const drawTable = (table: Table | undefined, label: string, note: string, title?: string): Content =>
  table &&
  fragment`${title === undefined ? null : fragment`<h2>${title}</h2>\n`}<div class="card">${tableHtml(table, label)}
<p class="soft small">${note}</p></div>`;

const paperTitle = 'The columns of the paper';
const paperNote =
  'Speedup, accepted length, and tokens per second of the answers that the target gives by itself, without and with the suffix. Perplexity of those answers under the clean prompt. Same answer: the accepted length along the clean answer.';
const phaseNote = `${phaseLegend}. Shares are of the whole run.`;
const workerNote =
  'Workers that share a machine slow each other down: tokens per second and speedups are lower than those of one process.';

/** The A/A row. In float32 greedy decoding repeats exactly; where it does not, the report opens with a warning (repeats.ts). */
function describeRepeat({ drafter, summary }: DrafterResult, timings: AuditTimings): Content {
  const first = findArm(summary, 'clean');
  const again = findArm(summary, 'clean-again');
  if (first === undefined || again === undefined) return null;
  const speeds = [first.arm, again.arm].map((arm) =>
    speedupText(summariseTimings(timings, drafter, arm).speedup),
  );
  return fragment`<p class="small"><b>A/A for ${drafter}:</b> the clean prompts, measured twice, give
${acceptedLengthText(first.sameAnswer.estimate)} and ${acceptedLengthText(again.sameAnswer.estimate)} tokens per step, and a speedup of ${speeds[0] ?? ''} and ${speeds[1] ?? ''}.
Smaller differences are noise.</p>`;
}

/** Whether the searches really were of equal effort. */
function describeEffort({ drafter, prompts }: DrafterResult): Content {
  const traces = prompts.flatMap((prompt) => prompt.traces);
  const efforts = arms.flatMap((arm) => {
    const own = traces.filter((trace) => trace.arm === arm);
    const sum = (value: (trace: SearchTrace) => number): string =>
      groupThousands(own.reduce((total, trace) => total + value(trace), 0));
    return own.length === 0
      ? []
      : `${armLabels[arm]} ${sum((trace) => trace.scoredCandidates)} scored and ${sum((trace) => trace.decodedSuffixes)} decoded`;
  });
  if (efforts.length === 0) return null;
  return fragment`<p class="small"><b>Effort on ${drafter}:</b> suffixes over all prompts: ${efforts.join('; ')}.</p>`;
}

const limits = [
  'It gives no upper bound: a longer or stronger search may find worse suffixes.',
  'It holds for these weights, this drafting policy, this sampling and these prompts. Another quantization or engine may behave differently.',
  'Along the clean answer we fix the words. The classes say whether the target writes them on its own; only “identical” is beyond argument, and no class judges meaning.',
  'Speedups are for this machine at batch size 1. Accepted lengths and passes carry over to other machines; times do not.',
  'Intervals resample prompts; with fewer than about 10 prompts they are too narrow.',
  'A filter in front of the service may catch suffixes with a high perplexity. The audit does not assume one.',
];
