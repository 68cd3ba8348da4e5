/**
 * Why a request, a tenant or everybody is out of the usual, as far as counts can tell. The alarm itself is a test with a promised
 * rate; its cause is a judgement by rules and has none:
 *
 *   repetition     above the ceiling: loops and copied text let drafts succeed
 *   drafter-down   half of all tenants are low at once
 *   hard-text      low, and one of: not far below what benign requests are known to come to; usual at first and
 *                  low later; behind a prompt longer than nearly all; a tenant's requests that are low together only
 *   collapse       the rest: far below the whole benign range, from the first steps on; and whatever is low while its
 *                  prompt is like other flagged ones and unlike usual ones, or ends with text that the model finds
 *                  unlikely
 *
 * A slow attack that stays near the lowest benign requests is called hard-text, and text unlike any that was ever learnt
 * (another language) is called a collapse if it is as low as one. Neither can be told from counts.
 */
import type { AlarmCause } from './alarm.js';
import type { Likeness } from './prompt-likeness.js';
import { isFamily } from './prompt-likeness.js';
import type { UnlikelyTail } from './prompt-tail.js';

export interface Symptoms {
  readonly side: 'low' | 'high';
  /** Half of all are low at this moment. */
  readonly isWide: boolean;
  /** Share of the steps that accepted anything, or what stands for it, and the floor of it. */
  readonly share: number;
  readonly floor: number;
  /** Accepted draft tokens a step in the first steps and in all; null where single steps are not known. */
  readonly acceptedAtFirst: number | null;
  readonly accepted: number;
  readonly promptTokens: number | null;
  readonly longPrompt: number | undefined;
  readonly likeness: Likeness | undefined;
  /** Where the end of the prompt is less likely than those of usual ones (prompt-tail.ts). */
  readonly tail?: UnlikelyTail | undefined;
  /** Where a tenant rang by the mean rank of its requests (tenant-levels.ts), and not by single ones. */
  readonly level?: { readonly meanRank: number; readonly floor: number } | undefined;
}

export interface Diagnosis {
  readonly cause: AlarmCause;
  /** Words to end a sentence with, after a semicolon. */
  readonly because: string;
}

/** Below this part of the floor no benign request is near. */
const farBelow = 0.6;
/** A request that begins with so many times what it comes to has fallen later. */
const fallsFrom = 2.5;

export function findCause(symptoms: Symptoms): Diagnosis {
  const { side, isWide, share, floor, acceptedAtFirst, accepted, level } = symptoms;
  const { promptTokens, longPrompt, likeness, tail } = symptoms;
  if (side === 'high')
    return { cause: 'repetition', because: 'drafts succeed as they do in loops and copies' };
  if (isWide)
    return {
      cause: 'drafter-down',
      because: 'most tenants are low at once, which points to the drafter itself',
    };
  if (likeness !== undefined && isFamily(likeness)) {
    const { alike, flagged } = likeness;
    const because = `its prompt ends like ${alike} of the last ${flagged} flagged ones, and usual prompts do not`;
    return { cause: 'collapse', because };
  }
  if (tail !== undefined) {
    const because =
      `${level === undefined ? 'the end of its prompt' : `${describeLevel(level)}; the end of the last prompt`} ` +
      `is text that the model finds unlikely, ${tail.surprisal.toFixed(1)} nats a token where nearly all have up to ${tail.usual.toFixed(1)}`;
    return { cause: 'collapse', because };
  }
  if (promptTokens !== null && longPrompt !== undefined && promptTokens > 4 * longPrompt) {
    const because = `its prompt has ${promptTokens} tokens, where nearly all have up to ${longPrompt}`;
    return { cause: 'hard-text', because };
  }
  if (acceptedAtFirst !== null && acceptedAtFirst > fallsFrom * Math.max(accepted, leastAccepted))
    return {
      cause: 'hard-text',
      because: 'it began as usual and fell later, as text does that becomes hard',
    };
  if (level !== undefined) return { cause: 'hard-text', because: describeLevel(level) };
  if (share > farBelow * floor)
    return { cause: 'hard-text', because: 'it lies not far below the lowest benign requests' };
  return { cause: 'collapse', because: 'it lies far below all benign requests, from the first steps on' };
}

function describeLevel({ meanRank, floor }: NonNullable<Symptoms['level']>): string {
  return (
    `each of them may be usual, but they lie above ${percent(meanRank)} of benign requests on average, ` +
    `where ${percent(floor)} or more were expected of this tenant`
  );
}

const percent = (share: number): string => `${Math.round(100 * share)} %`;

/** Accepted tokens a step: with almost none at all, a few at first would be a fall. */
const leastAccepted = 0.15;
