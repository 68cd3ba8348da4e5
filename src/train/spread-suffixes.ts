/**
 * Suffixes that were found on one question, put behind others: a search is dear, and what is to be learnt is to read on
 * behind stray tokens, not behind those of one prompt. Each stands before the answer that its question has without it; what
 * is learnt there is the target's own distribution, whether or not it would still say the same.
 */
import { createRandom } from '../core/random.js';
import type { Example } from './examples.js';
import type { SuffixedPrompt } from './suffixed-texts.js';

export interface SpreadOptions {
  readonly round: number;
  readonly maxTokens: number;
  /** Questions that each suffix is put behind. */
  readonly count: number;
  readonly seed: number;
}

export function spreadSuffixes(
  found: readonly SuffixedPrompt[],
  clean: readonly Example[],
  { round, maxTokens, count, seed }: SpreadOptions,
): readonly Example[] {
  const single = clean.filter(({ isLearnt }) => !isLearnt.subarray(isLearnt.indexOf(1)).includes(0));
  const byConversation = new Map(single.map((example) => [example.conversationId ?? example.id, example]));
  if (count === 0 || single.length === 0) return [];
  const random = createRandom(seed, 'spread suffixes', String(round));
  return found.flatMap(({ prompt, suffixLength, texts }) => {
    const own = byConversation.get(prompt);
    if (own === undefined) return [];
    return texts.flatMap(({ promptIds }, index) => {
      const behind = countShared(promptIds, promptOf(own));
      const end = promptIds.length - behind;
      const suffix = promptIds.slice(end - suffixLength, end);
      return Array.from({ length: count }, (_, copy): Example => {
        const host = single[random.nextInteger(single.length)]!;
        const place = promptOf(host).length - behind;
        const tokens = [...host.tokens.subarray(0, place), ...suffix, ...host.tokens.subarray(place)];
        const length = Math.min(tokens.length, maxTokens);
        const isLearnt = Uint8Array.from({ length }, (_, at) => +(at >= place + suffix.length + behind));
        const id = `${host.id}+suffix ${round + 1} of ${prompt} ${index + 1}.${copy + 1}`;
        return { id, tokens: Int32Array.from(tokens.slice(0, length)), isLearnt, conversationId: id };
      }).filter(({ isLearnt }) => isLearnt.includes(1));
    });
  });
}

const promptOf = ({ tokens, isLearnt }: Example): Int32Array => tokens.subarray(0, isLearnt.indexOf(1));

/** At their ends: what stands behind a suffix. */
function countShared(left: ArrayLike<number>, right: ArrayLike<number>): number {
  let shared = 0;
  const most = Math.min(left.length, right.length);
  while (shared < most && left[left.length - 1 - shared] === right[right.length - 1 - shared]) shared += 1;
  return shared;
}
