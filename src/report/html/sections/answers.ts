/** One fold for each prompt: the suffix in its place, and the two answers side by side. */
import type { ArmResult, AuditResult, PromptResult } from '../../../audit/result.js';
import { findPromptArm } from '../../arm-names.js';
import {
  acceptedLengthText,
  countText,
  divergenceText,
  percentText,
  perplexityText,
} from '../../number-text.js';
import type { Content, Markup } from '../markup.js';
import { fragment } from '../markup.js';
import { drawTokenKey, drawTokens, findDifferences } from './tokens.js';

interface Entry {
  readonly drafter: string;
  readonly prompt: PromptResult;
}

export function drawAnswers({ drafters }: AuditResult): Markup {
  const byPrompt = new Map<string, Entry[]>();
  for (const { drafter, prompts } of drafters) {
    for (const prompt of prompts) {
      byPrompt.set(prompt.promptId, [...(byPrompt.get(prompt.promptId) ?? []), { drafter, prompt }]);
    }
  }
  const worst = findWorstPrompt([...byPrompt.values()]);
  return fragment`<h2>The answers, token by token</h2>
<p class="lead">Left without the suffix, right with it. The words should be the same; what changes is how many of them
the drafter gets right. More frames and less shade is what the service pays for.</p>
${drawTokenKey()}
${[...byPrompt].map(([promptId, entries]) => drawPrompt(promptId, entries, promptId === worst))}`;
}

function findWorstPrompt(prompts: readonly (readonly Entry[])[]): string | undefined {
  const drops = prompts.flat().flatMap(({ prompt }) => {
    const drop = dropOf(prompt);
    return drop === null ? [] : [{ promptId: prompt.promptId, drop }];
  });
  return drops.sort((left, right) => right.drop - left.drop)[0]?.promptId;
}

function dropOf(prompt: PromptResult): number | null {
  const clean = findPromptArm(prompt, 'clean');
  const attack = findPromptArm(prompt, 'attack');
  if (clean === undefined || attack === undefined) return null;
  return 1 - attack.acceptance.meanAcceptedLength / clean.acceptance.meanAcceptedLength;
}

function drawPrompt(promptId: string, entries: readonly Entry[], open: boolean): Markup {
  const first = entries[0]!.prompt;
  const drops = entries.map(({ drafter, prompt }): Content => {
    const drop = dropOf(prompt);
    return fragment`<span class="small nowrap">${drafter} <b>${drop === null ? 'skipped' : percentText(-drop)}</b></span>`;
  });
  return fragment`<details class="prompt"${open ? fragment` open` : null}><summary><b>${promptId}</b>${
    first.category === null ? null : fragment`<span class="soft small">${first.category}</span>`
  }<span class="ask small">${first.prompt.replace('{suffix}', '')}</span>${drops}</summary>
<div>${entries.map(drawEntry)}</div></details>`;
}

function drawEntry({ drafter, prompt }: Entry): Markup {
  const clean = findPromptArm(prompt, 'clean');
  const attack = findPromptArm(prompt, 'attack');
  if (prompt.skipped !== null || clean === undefined || attack === undefined) {
    return fragment`<div class="drafter-block"><h3>${drafter}</h3><div class="asked">${prompt.prompt}</div>
<p class="soft">Skipped: ${prompt.skipped ?? 'the attack was not measured.'}</p></div>`;
  }
  const differing = findDifferences(clean.answer.tokenIds, attack.answer.tokenIds);
  const { preservation } = attack;
  return fragment`<div class="drafter-block"><h3>${drafter}</h3>
<div class="asked">${drawInPlace(prompt.prompt, attack.suffix)}</div>
<p class="soft small">${
    attack.suffixIds.length === 0
      ? 'No suffix that was found keeps the answer: the prompt counts as it is without one. '
      : ''
  }KL ${divergenceText(preservation.divergence)} nats,
${preservation.withinBound ? 'within the bound' : 'outside the bound'}; answer kept ${percentText(preservation.editSimilarity)},
${describeFirst(attack)}; perplexity of the suffix ${perplexityText(preservation.suffixPerplexity)}${
    preservation.taskAgrees === null ? '' : `; task answer ${preservation.taskAgrees ? 'agrees' : 'differs'}`
  }${describeRepeats(prompt)}.</p>
<div class="sides">
<div><h4>No suffix <span>${describeSide(clean)}</span></h4>${drawTokens(clean.answer, clean.acceptance, differing.left)}</div>
<div><h4>Attack <span>${describeSide(attack)}</span></h4>${drawTokens(attack.answer, attack.acceptance, differing.right)}</div>
</div></div>`;
}

function describeSide({ acceptance }: ArmResult): string {
  const { emitted, steps, meanAcceptedLength } = acceptance;
  return `· ${countText(emitted, 'token')} in ${countText(steps, 'step')}, ${acceptedLengthText(meanAcceptedLength)} per step`;
}

function describeRepeats({ repeats }: PromptResult): string {
  return repeats.length === 0
    ? ''
    : `; with other seeds ${repeats.map(acceptedLengthText).join(', ')} tokens per step`;
}

function describeFirst({ preservation, answer }: ArmResult): string {
  const { firstDifference, editSimilarity } = preservation;
  return editSimilarity === 1
    ? 'no difference'
    : `first difference after ${firstDifference} of ${countText(answer.tokenIds.length, 'token')}`;
}

/** Where the audit put it: at the placeholder, or behind the user's text. */
function drawInPlace(prompt: string, suffix: string): Markup {
  const at = prompt.indexOf('{suffix}');
  const before = at < 0 ? prompt : prompt.slice(0, at);
  const after = at < 0 ? '' : prompt.slice(at + '{suffix}'.length);
  return fragment`${before}<mark class="suffix">${suffix}</mark>${after}`;
}
