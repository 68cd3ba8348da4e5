/** One fold for each prompt: the suffix in its place, and under it what became of the drafts and of the answer. */
import type { AuditResult } from '../../../audit/result.js';
import { countedArm } from '../../../audit/summary.js';
import { promptChange } from '../../arm-names.js';
import { changeText } from '../../../core/number-text.js';
import type { Content, Markup } from '../markup.js';
import { fragment } from '../markup.js';
import type { Entry } from './answer-entry.js';
import { drawEntry } from './answer-entry.js';
import { drawTokenKey } from './tokens.js';

export function drawAnswers({ drafters }: AuditResult): Markup {
  const byPrompt = new Map<string, Entry[]>();
  for (const { drafter, prompts } of drafters) {
    const counted = countedArm(prompts);
    for (const prompt of prompts) {
      const entry = { drafter, counted, prompt };
      byPrompt.set(prompt.promptId, [...(byPrompt.get(prompt.promptId) ?? []), entry]);
    }
  }
  const worst = findWorstPrompt([...byPrompt.values()]);
  return fragment`<h2>The answers, token by token</h2>
<p class="lead">The clean answer twice: left as it is drafted without the suffix, right with it. The words are the same
by construction; what changes is how many of them the drafter gets right. Less shade and more frames is what the service
pays for. Where the target, running free, writes something else, that answer stands below.</p>
${drawTokenKey()}
${[...byPrompt].map(([promptId, entries]) => drawPrompt(promptId, entries, promptId === worst))}`;
}

function findWorstPrompt(prompts: readonly (readonly Entry[])[]): string | undefined {
  const changes = prompts.flat().flatMap(({ prompt, counted }) => {
    const change = promptChange(prompt, counted);
    return change === null ? [] : [{ promptId: prompt.promptId, change }];
  });
  return changes.sort((left, right) => left.change - right.change)[0]?.promptId;
}

function drawPrompt(promptId: string, entries: readonly Entry[], open: boolean): Markup {
  const first = entries[0]!.prompt;
  const changes = entries.map(({ drafter, counted, prompt }): Content => {
    const change = prompt.skipped === null ? promptChange(prompt, counted) : null;
    return fragment`<span class="small nowrap">${drafter} <b>${change === null ? 'skipped' : changeText(change)}</b></span>`;
  });
  return fragment`<details class="prompt"${open ? fragment` open` : null}><summary><b>${promptId}</b>${
    first.category === null ? null : fragment`<span class="soft small">${first.category}</span>`
  }<span class="ask small">${first.prompt.replace('{suffix}', '')}</span>${changes}</summary>
<div>${entries.map(drawEntry)}</div></details>`;
}
