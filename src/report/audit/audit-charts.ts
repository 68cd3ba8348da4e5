/** The three chapters of charts, one card for each drafter, all drafters of a chapter on one scale. */
import type { ArmName } from '../../audit/arms/arms.js';
import { arms } from '../../audit/arms/arms.js';
import type { AuditResult, AuditSetup, DrafterResult } from '../../audit/result.js';
import { findArm } from './arm-names.js';
import { drawKey } from '../chart.js';
import { armLine, armStyle } from './arm-marks.js';
import { cleanLevel, convergenceArms, drawConvergence, findScale, hasTraces } from './convergence.js';
import { depthArms, drawDepthAcceptance, findDeepest } from './depth-acceptance.js';
import { drawPairedLengths, findLongest } from './paired-lengths.js';
import type { Content, Markup } from '../markup.js';
import { fragment } from '../markup.js';
import type { Chapter } from '../page.js';

export function drawCharts(result: AuditResult): Chapter[] {
  const audited = result.drafters.filter(({ summary }) => summary.promptsAudited > 0);
  if (audited.length === 0) return [];
  return [
    { id: 'prompts', name: 'Prompts', content: drawPromptChapter(audited) },
    { id: 'depth', name: 'Depth', content: drawDepthChapter(audited) },
    ...(hasTraces(audited)
      ? [{ id: 'search', name: 'Search', content: drawSearchChapter(audited, result.setup) }]
      : []),
  ];
}

function drawPromptChapter(drafters: readonly DrafterResult[]): Markup {
  const longest = findLongest(drafters);
  return fragment`<h2>Prompt by prompt</h2>
<p class="lead">Each line is one prompt: how far the accepted length along its clean answer moves from no suffix to the
suffix that counts. The open marks are the controls; they should stay near the clean dot.</p>
${drawKey(present(drafters, arms).map(armStyle))}${drawGrid(drafters, (drafter) => drawPairedLengths(drafter, longest))}`;
}

function drawDepthChapter(drafters: readonly DrafterResult[]): Markup {
  const deepest = findDeepest(drafters);
  return fragment`<h2>How deep drafts survive</h2>
<p class="lead">The share of steps along the clean answer whose accepted path reaches each depth. One minus the first
point is how often the very first draft token is thrown away.</p>
${drawKey(present(drafters, depthArms).map(armStyle))}${drawGrid(drafters, (drafter) => drawDepthAcceptance(drafter, deepest))}`;
}

function drawSearchChapter(drafters: readonly DrafterResult[], setup: AuditSetup): Markup {
  const bound = boundOf(setup);
  const bounded = bound === null ? null : { value: bound, name: `bound ε = ${bound}` };
  const lengths = findScale(drafters, 'acceptedLength', drafters.map(cleanLevel));
  const divergences = findScale(drafters, 'divergence', [bounded]);
  return fragment`<h2>How the search went</h2>
<p class="lead">Above, the lowest accepted length along the clean answer that the search has met so far inside the
bounds: lower is worse for the service. Below, how far the suffix that the search stands at moves the target’s own
distribution. Thick lines are medians over prompts, thin ones single prompts under attack. A curve that still falls at
its end says that a longer search may find worse; an undirected search that falls as far says that luck would do.</p>
${drawKey(present(drafters, convergenceArms).map(armLine))}${drawGrid(drafters, (drafter) => [
    drawConvergence(drafter, {
      quantity: 'acceptedLength',
      level: cleanLevel(drafter),
      scale: lengths,
    }),
    drawConvergence(drafter, { quantity: 'divergence', level: bounded, scale: divergences }),
  ])}`;
}

function present(drafters: readonly DrafterResult[], wanted: readonly ArmName[]): ArmName[] {
  return wanted.filter((arm) => drafters.some(({ summary }) => findArm(summary, arm) !== undefined));
}

function drawGrid(drafters: readonly DrafterResult[], draw: (drafter: DrafterResult) => Content): Markup {
  return fragment`<div class="grid">${drafters.map(
    (drafter) =>
      fragment`<figure class="card"><figcaption><b>${drafter.drafter}</b>, n = ${drafter.summary.promptsAudited}</figcaption>${draw(drafter)}</figure>`,
  )}</div>`;
}

function boundOf({ options }: AuditSetup): number | null {
  const { epsilon } = options;
  return typeof epsilon === 'number' ? epsilon : null;
}
