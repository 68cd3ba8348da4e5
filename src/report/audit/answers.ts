/** Per prompt: the suffix in its place, the drafts token by token, and the answer. */
import type {
  AcceptanceSummary,
  ArmResult,
  AuditResult,
  OtherAnswer,
  PromptResult,
} from '../../audit/result.js';
import { countedArm } from '../../audit/summary.js';
import {
  acceptedLengthText,
  changeText,
  countText,
  divergenceText,
  percentText,
  perplexityText,
} from '../../core/number-text.js';
import { findAdded } from '../../measure/kept-class.js';
import { extractCode } from '../../measure/code-form.js';
import { type Section, pictureBlock, section } from '../document.js';
import { type Content, type Markup, fragment } from '../markup.js';
import { armLabels, findPromptArms, keptNames, promptChange } from './audit-words.js';

export function drawAnswers({ drafters }: AuditResult): Section {
  const byPrompt = new Map<string, Entry[]>();
  for (const { drafter, prompts } of drafters) {
    const counted = countedArm(prompts);
    for (const prompt of prompts) {
      const entry = { drafter, counted, prompt };
      byPrompt.set(prompt.promptId, [...(byPrompt.get(prompt.promptId) ?? []), entry]);
    }
  }
  const worst = findWorstPrompt([...byPrompt.values()]);
  return section(
    ['answers', 'Answers', 'The answers, token by token'],
    'The clean answer twice: left as it is drafted without the suffix, right with it. The words are the same by construction; what changes is how many of them the drafter gets right. Less shade and more frames is what the service pays for. Where the target, running free, writes something else, that answer stands below.',
    pictureBlock([
      drawTokenKey(),
      [...byPrompt].map(([promptId, entries]) => drawPrompt(promptId, entries, promptId === worst)),
    ]),
  );
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

/** One prompt on one drafter: the same answer without and with the suffix, and the free-running one where it differs. */
interface Entry {
  readonly drafter: string;
  readonly counted: 'attack' | 'given';
  readonly prompt: PromptResult;
}

function drawEntry({ drafter, counted, prompt }: Entry): Markup {
  const [clean] = findPromptArms(prompt, 'clean');
  const [shown, ...others] = findPromptArms(prompt, counted);
  if (prompt.skipped !== null || clean === undefined || shown === undefined) {
    return fragment`<div class="drafter-block"><h3>${drafter}</h3>${drawAsked(prompt, '')}
<p class="soft">Skipped: ${prompt.skipped ?? 'the attack was not measured.'}</p></div>`;
  }
  const isCode = looksLikeCode(prompt.category, clean.answer.text);
  const { pieces, finishReason: end } = clean.answer;
  const left = drawTokens({ pieces, marks: markTokens(clean.sameAnswer), end, isCode });
  const right = drawTokens({ pieces, marks: markLost(clean.sameAnswer, shown.sameAnswer), end, isCode });
  return fragment`<div class="drafter-block"><h3>${drafter}</h3>
${drawAsked(prompt, shown.suffix)}
<p class="soft small">${shown.withoutSuffix === null ? null : fragment`<b>No suffix, counted as no drop.</b> ${shown.withoutSuffix} `}${describeSuffix(shown)}${describeOthers(others)}.</p>
<div class="sides">
<div><h4>Clean answer, no suffix <span>${describeSteps(clean)}</span></h4>${left}</div>
<div><h4>The same answer, ${armLabels[counted]} <span>${describeSteps(shown)}</span></h4>${right}</div>
</div>${drawFree(clean, shown, isCode)}${drawOther('Not kept when it was measured: counted as no suffix', shown.notKept, prompt)}${drawOther('Another answer, slower: not counted as the attack', shown.slowOther, prompt)}</div>`;
}

const codeCategories = /^(code|coding|programming|human-?eval.*|mbpp|mbxp)$/i;

export function looksLikeCode(category: string | null, text: string): boolean {
  return (category !== null && codeCategories.test(category)) || extractCode(text) !== undefined;
}

function describeSteps({ sameAnswer }: ArmResult): string {
  const { emitted, steps, meanAcceptedLength } = sameAnswer;
  return `· ${countText(emitted, 'token')}, ${countText(steps, 'pass')}, ${acceptedLengthText(meanAcceptedLength)} a step`;
}

function describeSuffix({ preservation, freeRunning, compared }: ArmResult): string {
  const { divergence, withinBound, kept, suffixPerplexity } = preservation;
  return [
    `Free-running answer ${keptNames[kept]}`,
    `${acceptedLengthText(freeRunning.meanAcceptedLength)} tokens a step, ${changeText(compared.passes / compared.cleanPasses - 1)} passes over ${countText(compared.tokens, 'token')}`,
    `KL ${divergenceText(divergence)} nats, ${withinBound ? 'within the bounds' : 'outside the bounds'}`,
    `perplexity of the suffix ${perplexityText(suffixPerplexity)}`,
  ].join('; ');
}

function describeOthers(others: readonly ArmResult[]): string {
  if (others.length === 0) return '';
  const lengths = others.map(({ sameAnswer }) => acceptedLengthText(sameAnswer.meanAcceptedLength));
  return `; the first of ${others.length + 1} seeds is shown, the others reach ${lengths.join(', ')} tokens a step`;
}

/** Null if it is identical to the clean answer. */
function drawFree(
  clean: ArmResult,
  { answer, freeRunning, preservation }: ArmResult,
  isCode: boolean,
): Content {
  if (preservation.kept === 'identical') return null;
  const { kept, editSimilarity, firstDifference } = preservation;
  const { origins, pieces, finishReason: end } = answer;
  const differing = findAdded(clean.answer.tokenIds, answer.tokenIds);
  const marks = markTokens({ origins, histogram: freeRunning.histogram });
  return fragment`<div class="aside"><h4>What the target writes by itself <span>· ${keptNames[kept]}; similarity
${percentText(editSimilarity)}, first difference after ${countText(firstDifference, 'token')}</span></h4>
${drawTokens({ pieces, marks, end, isCode, differing })}</div>`;
}

function drawOther(title: string, other: OtherAnswer | null | undefined, prompt: PromptResult): Content {
  if (other === null || other === undefined) return null;
  const { suffix, answer, similarity, compared } = other;
  const passes = changeText(compared.passes / compared.cleanPasses - 1);
  return fragment`<div class="aside other"><h4>${title} <span>· similarity
${percentText(similarity)}, ${passes} passes over ${countText(compared.tokens, 'token')}</span></h4>
<p class="small">Suffix <mark class="suffix">${suffix}</mark></p>
${drawText(answer, looksLikeCode(prompt.category, answer))}</div>`;
}

/** The suffix is at the placeholder, or after the user's text. */
function drawAsked({ prompt, category }: PromptResult, suffix: string): Markup {
  const at = prompt.indexOf('{suffix}');
  const before = at < 0 ? prompt : prompt.slice(0, at);
  const after = at < 0 ? '' : prompt.slice(at + '{suffix}'.length);
  const isCode = looksLikeCode(category, prompt) && prompt.includes('\n');
  const mark = suffix === '' ? null : fragment`<mark class="suffix">${suffix}</mark>`;
  return fragment`<div class="asked${isCode ? ' code' : ''}">${before}${mark}${after}</div>`;
}

/**
 * a = accepted draft, r = the target's token where a draft was rejected, b = the target's token without a rejection,
 * l = lost: the target's token where the other decoding accepted a draft. Each has its own form besides its color.
 */
type TokenMark = 'a' | 'r' | 'b' | 'l';

export interface DecodedTokens {
  /** a = accepted draft token, b = the target's own, one letter each. */
  readonly origins: string;
  readonly histogram: AcceptanceSummary['histogram'];
}

/**
 * A step ends with the target's own token. If it accepted less than the deepest draft, a draft token was rejected
 * there; otherwise the token is the bonus. The first token comes from reading the prompt, before any draft.
 */
export function markTokens({ origins, histogram }: DecodedTokens): TokenMark[] {
  const deepest = Math.max(0, histogram.length - 1);
  let accepted = 0;
  return Array.from(origins, (origin, index) => {
    if (origin === 'a') {
      accepted += 1;
      return 'a';
    }
    const mark = index === 0 || accepted >= deepest ? 'b' : 'r';
    accepted = 0;
    return mark;
  });
}

/** Marks of an answer under a suffix; where the same token was an accepted draft without it, the draft was lost. */
export function markLost(without: DecodedTokens, under: DecodedTokens): TokenMark[] {
  return markTokens(under).map((mark, index) =>
    mark !== 'a' && without.origins[index] === 'a' ? 'l' : mark,
  );
}

interface TokenView {
  readonly pieces: readonly string[];
  readonly marks: readonly TokenMark[];
  /** Shown after the last token. */
  readonly end: string;
  readonly isCode: boolean;
  readonly differing?: ReadonlySet<number>;
}

export function drawTokens({ pieces, marks, end, isCode, differing }: TokenView): Markup {
  const spans = pieces.map((piece, index) => {
    const classes = `${marks[index] ?? 'b'}${differing?.has(index) === true ? ' d' : ''}`;
    return drawPiece(piece, classes);
  });
  return drawText(fragment`${spans}<span class="end"> ■ ${end}</span>`, isCode);
}

function drawText(content: Content, isCode: boolean): Markup {
  return fragment`<div class="text${isCode ? ' code' : ''}">${content}</div>`;
}

/** A line end gets a visible mark, so that a token of nothing else can be seen. */
function drawPiece(piece: string, classes: string): Markup {
  if (piece === '') return fragment``;
  const lines = piece.replace(/\r\n/g, '\n').split('\n');
  const parts = lines.map((line, index) =>
    index < lines.length - 1 ? fragment`${line}<span class="end">↵</span>` : fragment`${line}`,
  );
  const breaks = '\n'.repeat(lines.length - 1);
  return lines.length === 1
    ? fragment`<span class="${classes}">${piece}</span>`
    : fragment`<span class="${classes}">${parts}</span>${breaks}`;
}

function drawTokenKey(): Markup {
  return fragment`<ul class="key text">
<li><span class="a">accepted draft token</span></li>
<li><span class="l">accepted without the suffix, lost with it</span></li>
<li><span class="r">draft rejected, the target’s own token</span></li>
<li><span class="b">the target’s own token, nothing rejected</span></li>
<li><span class="d">differs from the clean answer</span></li>
<li><mark class="suffix">suffix</mark></li></ul>`;
}
