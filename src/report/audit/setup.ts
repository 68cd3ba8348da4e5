/** How the numbers came to be, how to get them again, and what they do not say. */
import { arms } from '../../audit/arms/arms.js';
import type { AuditTimings } from '../../audit/arms/phase-clock.js';
import type { AuditResult, DrafterResult, SearchTrace } from '../../audit/result.js';
import { armLabels, armPurposes, findArm } from './arm-names.js';
import {
  acceptedLengthText,
  durationText,
  groupThousands,
  parameterText,
  speedupText,
} from '../../core/number-text.js';
import { listPhases, phaseCells, phaseColumns, phaseLegend, summariseTimings } from './timing-summary.js';
import type { Content, Markup } from '../markup.js';
import { fragment } from '../markup.js';

export function drawSetup(result: AuditResult, timings: AuditTimings): Markup {
  const { setup } = result;
  const { target, drafters, options } = setup;
  const given = Object.entries(options).map(([name, value]) => `${name} ${String(value)}`);
  const measured = arms.filter((arm) =>
    result.drafters.some(({ summary }) => findArm(summary, arm) !== undefined),
  );
  const fact = (name: string, value: Content): Markup => fragment`<dt>${name}</dt><dd>${value}</dd>`;
  const hash = (sha256: string): Markup =>
    fragment`<code title="${sha256}">sha256 ${sha256.slice(0, 16)}…</code>`;
  return fragment`<h2>Rows explained</h2>
<div class="card"><dl class="facts">${measured.map((arm) => fact(armLabels[arm], armPurposes[arm]))}</dl>
${result.drafters.map((drafter) => [describeRepeat(drafter, timings), describeEffort(drafter)])}</div>
${drawPhases(timings)}
<h2>Setup and how to reproduce</h2>
<div class="card"><dl class="facts">
${fact('target', fragment`${target.name}, ${parameterText(target.parameterCount)}, ${hash(target.sha256)}`)}
${drafters.map((drafter) => fact(`drafter ${drafter.id}`, fragment`${drafter.system}, ${drafter.policy}, ${drafter.name}, ${parameterText(drafter.parameterCount)}, ${hash(drafter.sha256)}`))}
${fact('prompts', setup.promptCount)}
${fact('preset', setup.preset)}
${fact('options', given.join(', '))}
${fact('seed', setup.seed)}
${fact('software', `Mistletoe ${setup.version}, Node ${setup.node}`)}
${fact('machine', `${timings.machine}; the audit took ${durationText(timings.totalMs)}`)}
</dl><pre class="command"><code>${setup.command}</code></pre>
<p class="soft small">The same seed on the same machine gives the same result.json, byte for byte; times differ from run to run.</p></div>
${drawLimits()}`;
}

function drawPhases(timings: AuditTimings): Content {
  const rows = listPhases(timings);
  if (rows.length === 0) return null;
  return fragment`<h2>Where the time went</h2>
<div class="card"><div class="scroll"><table><thead><tr><th></th>${phaseColumns.map((name) => fragment`<th>${name}</th>`)}</tr></thead>
<tbody>${rows.map((row) => fragment`<tr><th>${row.name}</th>${phaseCells(row, timings).map((cell) => fragment`<td>${cell}</td>`)}</tr>`)}</tbody></table></div>
<p class="soft small">${phaseLegend}. Shares are of the whole run.</p></div>`;
}

/** The A/A row. In float32 greedy decoding repeats exactly; where it does not, the report opens with a warning (repeats.ts). */
function describeRepeat({ drafter, summary }: DrafterResult, timings: AuditTimings): Content {
  const first = findArm(summary, 'clean');
  const again = findArm(summary, 'clean-again');
  if (first === undefined || again === undefined) return null;
  const speeds = [first.arm, again.arm].map((arm) =>
    speedupText(summariseTimings(timings, drafter, arm).speedup),
  );
  return fragment`<p class="small"><b>A/A for ${drafter}:</b> measured twice, the clean prompts give
${acceptedLengthText(first.sameAnswer.estimate)} and ${acceptedLengthText(again.sameAnswer.estimate)} tokens a step, and a speedup of ${speeds[0] ?? ''} and ${speeds[1] ?? ''}.
A difference smaller than this one says nothing.</p>`;
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

function drawLimits(): Markup {
  return fragment`<div class="limits"><h3>What this report does not say</h3><ul>
<li>It bounds nothing from above: the audit found these suffixes in this time, a stronger search may find worse ones.</li>
<li>It speaks of these weights, this drafting policy, this sampling and these prompts; another quantisation or engine may behave otherwise.</li>
<li>Along the clean answer the words are held by us. Whether the target writes them by itself is what the classes say: of them only “identical” is beyond argument, and none is a judgement of meaning.</li>
<li>Speedups are of this machine at batch size 1; accepted lengths and passes carry over to other machines, times do not.</li>
<li>Intervals resample prompts; with fewer than about 10 prompts they are too narrow.</li>
<li>Suffixes with a high perplexity may be caught by a filter in front of the service. The audit does not assume one.</li>
</ul></div>`;
}
