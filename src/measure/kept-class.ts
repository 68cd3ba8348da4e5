/**
 * How an answer under a suffix relates to the clean one: the same tokens, other tokens with the same task result,
 * nearly the same tokens, or another answer.
 */
import { normaliseCode, extractCode } from './code-form.js';
import { editDistance, logSumExp } from '../core/vector.js';

/** From strictest to loosest; only the first three count as kept. */
export const keptClasses = ['identical', 'task', 'similar', 'different'] as const;
export type KeptClass = (typeof keptClasses)[number];

/** What decides the same task result: the number of a GSM8K-like solution, the code of a HumanEval-like one. */
export type TaskKind = 'number' | 'code' | 'none';

/** Which class an audit is held to; `distribution` leaves the free-running answer to the bound on the divergence. */
export const keepRules = ['identical', 'task', 'similar', 'distribution'] as const;
export type KeepRule = (typeof keepRules)[number];

/** Edit similarity from which on an answer is nearly the clean one. */
export const minSimilarity = 0.9;

export interface DecodedAnswer {
  readonly tokenIds: readonly number[];
  readonly text: string;
}

export interface AnswerPair {
  readonly clean: DecodedAnswer;
  readonly other: DecodedAnswer;
  readonly task: TaskKind;
}

/** Both were decoded up to the same limit, so that `identical` is token for token over the measured length. */
export function classifyAnswer({ clean, other, task }: AnswerPair) {
  const shared = firstDifference(clean.tokenIds, other.tokenIds);
  const similarity = editSimilarity(clean.tokenIds, other.tokenIds);
  const identical = shared === clean.tokenIds.length && shared === other.tokenIds.length;
  // The strictest that holds.
  const keptClass: KeptClass = identical
    ? 'identical'
    : hasSameResult(clean.text, other.text, task)
      ? 'task'
      : similarity >= minSimilarity
        ? 'similar'
        : 'different';
  return { keptClass, similarity, firstDifference: shared };
}

export function isKept(keptClass: KeptClass): boolean {
  return keptClass !== 'different';
}

/** A class alone does not say it: an answer of the class `task` may or may not be similar too. */
export function satisfies(rule: KeepRule, keptClass: KeptClass, similarity: number): boolean {
  switch (rule) {
    case 'identical':
      return keptClass === 'identical';
    case 'task':
      return keptClass === 'identical' || keptClass === 'task';
    case 'similar':
      return keptClass === 'identical' || similarity >= minSimilarity;
    case 'distribution':
      return true;
  }
}

/** Which result the clean answer to a prompt has; the prompt's reference marks a number with `####`. */
export function taskOf(prompt: { readonly reference: string | null }, cleanText: string): TaskKind {
  if (prompt.reference?.includes('####') === true && extractAnswer(cleanText) !== undefined) return 'number';
  return extractCode(cleanText) === undefined ? 'none' : 'code';
}

function hasSameResult(clean: string, other: string, task: TaskKind): boolean {
  switch (task) {
    case 'number':
      return agree(clean, other);
    case 'code': {
      const form = findCodeForm(clean);
      return form !== undefined && form === findCodeForm(other);
    }
    case 'none':
      return false;
  }
}

/** Undefined if the code does nothing yet: comments only, or cut after the header of a function. */
function findCodeForm(text: string): string | undefined {
  const code = extractCode(text);
  const form = code === undefined ? '' : normaliseCode(code);
  return /[^:{]$/u.test(form) ? form : undefined;
}

/**
 * The final answer of a GSM8K solution: the number after the first `####`, as the data set marks it, or else the last
 * number of the text. Answers are compared as canonical decimal strings ("$1,200.00" is "1200"), so that no digit is
 * lost to floating point.
 */

// A minus directly after a word or a closing bracket is a subtraction or a hyphen, not a sign.
const SIGN = String.raw`(?<sign>(?<![\w)\]}%])[-−])?[$€£]?`;
const FRACTION = String.raw`(?:\.\d+)?`;
const BARE_FRACTION = String.raw`(?<![\w.])\.\d+`;
const GROUPED = String.raw`\d{1,3}(?:,\d{3})+(?!\d)`;

// After the marker any comma belongs to the number; in running text "1,2,3" is a list.
const MARKED = new RegExp(
  String.raw`####(?:[^\S\n]|\*)*[$€£]?${SIGN}(?<digits>\d(?:,?\d)*${FRACTION}|${BARE_FRACTION})`,
  'u',
);
const RUNNING = new RegExp(
  String.raw`${SIGN}(?<digits>${GROUPED}${FRACTION}|\d+${FRACTION}|${BARE_FRACTION})`,
  'gu',
);

export function extractAnswer(text: string): string | undefined {
  const match = MARKED.exec(text) ?? [...text.matchAll(RUNNING)].at(-1);
  const digits = match?.groups?.digits;
  return digits === undefined ? undefined : canonicalise(digits, match?.groups?.sign !== undefined);
}

/** Whether two solutions end in the same number. A solution without a number agrees with nothing. */
export function agree(left: string, right: string): boolean {
  const answer = extractAnswer(left);
  return answer !== undefined && answer === extractAnswer(right);
}

function canonicalise(digits: string, negative: boolean): string {
  const [whole = '', fraction = ''] = digits.replaceAll(',', '').split('.');
  const integer = whole.replace(/^0+/u, '') || '0';
  const decimals = fraction.replace(/0+$/u, '');
  const magnitude = decimals === '' ? integer : `${integer}.${decimals}`;
  return negative && magnitude !== '0' ? `-${magnitude}` : magnitude;
}

// Measures of answers, token by token: perplexity, repetition, steps over equal lengths, similarity.
/** exp of the mean surprisal of a continuation. */
export function perplexityOf(
  logits: Float32Array, // [continuation, vocabulary] row i predicts token i
  continuation: readonly number[],
): number {
  const width = logits.length / continuation.length;
  const total = continuation.reduce((sum, token, row) => {
    const scores = logits.subarray(row * width, (row + 1) * width);
    return sum + logSumExp(scores) - scores[token]!;
  }, 0);
  return Math.exp(total / continuation.length);
}

/** Share of repeated n-grams, 1 - distinct / total; Rep-4 by default. 0 for a text shorter than one n-gram. */
export function repetitionShare(tokens: readonly number[], size = 4): number {
  const total = tokens.length - size + 1;
  if (total <= 0) return 0;
  const distinct = new Set<string>();
  for (let start = 0; start < total; start++) distinct.add(tokens.slice(start, start + size).join(' '));
  return 1 - distinct.size / total;
}

/**
 * The verification passes of the first tokens of an answer, given the accepted lengths of all its steps. A suffix may
 * shorten or lengthen an answer, and accepted lengths change along it, so answers are compared over equally many tokens.
 * The prefill gives the first token. A step that runs past the last of these tokens counts as one pass; a shorter
 * answer counts whole.
 */
export function countPasses(acceptedLengths: readonly number[], tokens: number): number {
  let passes = 0;
  let reached = 1;
  for (const length of acceptedLengths) {
    if (reached >= tokens) break;
    reached += length;
    passes++;
  }
  return passes;
}

/** Length of the common prefix. */
export function firstDifference(left: readonly number[], right: readonly number[]): number {
  const shorter = Math.min(left.length, right.length);
  let index = 0;
  while (index < shorter && left[index] === right[index]) index++;
  return index;
}

/** 1 - Levenshtein distance / longer length; 1 for two empty sequences. */
export function editSimilarity(left: readonly number[], right: readonly number[]): number {
  const longer = Math.max(left.length, right.length);
  return longer === 0 ? 1 : 1 - editDistance(left, right) / longer;
}

/** Positions of the right side that are not part of a longest common subsequence. */
export function findAdded(left: readonly number[], right: readonly number[]): ReadonlySet<number> {
  const width = right.length + 1;
  // [left, right] length of the longest common subsequence of the rests.
  const common = new Uint16Array((left.length + 1) * width);
  for (let i = left.length - 1; i >= 0; i--) {
    for (let j = right.length - 1; j >= 0; j--) {
      const cell = i * width + j;
      common[cell] =
        left[i] === right[j]
          ? common[cell + width + 1]! + 1
          : Math.max(common[cell + width]!, common[cell + 1]!);
    }
  }
  const added = new Set(right.keys());
  for (let i = 0, j = 0; i < left.length && j < right.length;) {
    const cell = i * width + j;
    if (left[i] === right[j]) {
      added.delete(j);
      i++;
      j++;
    } else if (common[cell + width]! >= common[cell + 1]!) i++;
    else j++;
  }
  return added;
}
