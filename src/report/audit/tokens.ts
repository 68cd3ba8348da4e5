/**
 * An answer token by token: which tokens were accepted drafts, where a draft was thrown away, which accepted drafts a
 * suffix took away, and what differs from the other answer. Each has its own form besides its colour: shade, solid
 * frame, dotted frame, shade with a frame, wavy underline.
 */
import type { AcceptanceSummary } from '../../audit/result.js';
import type { Content, Markup } from '../markup.js';
import { fragment } from '../markup.js';

/**
 * a = accepted draft, r = the target's token where a draft was rejected, b = the target's token without a rejection,
 * l = lost: the target's token where the other decoding accepted a draft.
 */
export type TokenMark = 'a' | 'r' | 'b' | 'l';

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

export interface TokenView {
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

export function drawText(content: Content, isCode: boolean): Markup {
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

export function drawTokenKey(): Markup {
  return fragment`<ul class="key text">
<li><span class="a">accepted draft token</span></li>
<li><span class="l">accepted without the suffix, lost with it</span></li>
<li><span class="r">draft rejected, the target’s own token</span></li>
<li><span class="b">the target’s own token, nothing rejected</span></li>
<li><span class="d">differs from the clean answer</span></li>
<li><mark class="suffix">suffix</mark></li></ul>`;
}
