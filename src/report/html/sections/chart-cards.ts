/** The three chapters of charts, one card for each drafter. */
import type { ArmName, AuditResult, AuditSetup, DrafterResult } from '../../../audit/result.js';
import { arms } from '../../../audit/result.js';
import { findArm } from '../../arm-names.js';
import { drawKey } from '../charts/arm-marks.js';
import { convergenceArms, drawConvergence } from '../charts/convergence.js';
import { depthArms, drawDepthAcceptance } from '../charts/depth-acceptance.js';
import { drawPairedLengths } from '../charts/paired-lengths.js';
import type { Content, Markup } from '../markup.js';
import { fragment } from '../markup.js';

export interface ChartChapter {
  readonly id: string;
  readonly name: string;
  readonly content: Markup;
}

export function drawCharts(result: AuditResult): ChartChapter[] {
  const audited = result.drafters.filter(({ summary }) => summary.promptsAudited > 0);
  if (audited.length === 0) return [];
  const bound = boundOf(result.setup);
  const present = (wanted: readonly ArmName[]): ArmName[] =>
    wanted.filter((arm) => audited.some(({ summary }) => findArm(summary, arm) !== undefined));
  return [
    {
      id: 'prompts',
      name: 'Prompts',
      content: fragment`<h2>Prompt by prompt</h2>
<p class="lead">Each line is one prompt: how far its mean accepted length moves from no suffix to the attack.
The open marks are the controls; they should stay near the clean dot.</p>
${drawKey(present(arms), 'dots')}${drawGrid(audited, drawPairedLengths)}`,
    },
    {
      id: 'depth',
      name: 'Depth',
      content: fragment`<h2>How deep drafts survive</h2>
<p class="lead">The share of steps whose accepted path reaches each depth. One minus the first point is how often the
very first draft token is thrown away.</p>
${drawKey(present(depthArms), 'lines')}${drawGrid(audited, drawDepthAcceptance)}`,
    },
    {
      id: 'search',
      name: 'Search',
      content: fragment`<h2>How the search went</h2>
<p class="lead">In each step the most promising suffixes are decoded, and the lowest accepted length so far is kept.
Degradation is the objective that chooses them; the divergence of the answer must stay under the bound. Thick lines are medians over prompts, thin ones single prompts under attack. A curve that still moves at its end
says that a longer search may find worse.</p>
${drawKey(present(convergenceArms), 'lines')}${drawGrid(audited, (drafter) => [
        drawConvergence(drafter, { quantity: 'acceptedLength', bound: null }),
        drawConvergence(drafter, { quantity: 'degradation', bound: null }),
        drawConvergence(drafter, { quantity: 'divergence', bound }),
      ])}`,
    },
  ];
}

function drawGrid(drafters: readonly DrafterResult[], draw: (drafter: DrafterResult) => Content): Markup {
  return fragment`<div class="grid">${drafters.map(
    (drafter) =>
      fragment`<figure class="card"><figcaption><b>${drafter.drafter}</b>, n = ${drafter.summary.promptsAudited}</figcaption>${draw(drafter)}</figure>`,
  )}</div>`;
}

export function boundOf({ options }: AuditSetup): number | null {
  const { epsilon } = options;
  return typeof epsilon === 'number' ? epsilon : null;
}
