/**
 * One prompt as the audit sees it: token ids before the suffix, after it, and the target's clean answer. A suffix
 * counts only if its text survives: the whole prompt, decoded and encoded again, must give the very same ids.
 */
import { MistletoeError } from '../core/errors.js';
import type { Generation } from '../decode/plain.js';
import { decodePlain } from '../decode/plain.js';
import type { Target } from '../decode/target.js';
import { encodeRendered } from '../text/chat-template.js';
import type { Prompt } from '../text/prompt-set.js';
import { splitAroundSuffix, splitChatAroundSuffix } from '../text/suffix-place.js';

export interface AuditPrompt {
  readonly id: string;
  readonly category: string | null;
  readonly text: string;
  readonly reference: string | null;
  readonly beforeIds: readonly number[];
  readonly afterIds: readonly number[];
  /** The greedy answer without a suffix. */
  readonly answer: Generation;
  /** The target's logits for the first `window` answer tokens. [window, vocabulary] */
  readonly cleanLogits: Float32Array;
}

export interface PromptOptions {
  readonly window: number;
  readonly suffixLength: number;
  readonly maxNewTokens: number;
  readonly chat: boolean;
}

/** Throws a MistletoeError that says why a prompt cannot be audited. */
export async function preparePrompt(
  target: Target,
  prompt: Prompt,
  options: PromptOptions,
): Promise<AuditPrompt> {
  const { model, tokenizer, template, stopIds } = target;
  const { window, suffixLength, maxNewTokens } = options;
  const useChat = options.chat && template !== undefined;
  const place = useChat ? splitChatAroundSuffix(template, prompt.text) : splitAroundSuffix(prompt.text);
  const wholeIds = await encodeRendered(tokenizer, place.before + place.after);
  const beforeIds = await encodeRendered(tokenizer, place.before);
  let shared = 0;
  while (shared < beforeIds.length && beforeIds[shared] === wholeIds[shared]) shared += 1;
  const { contextLength, vocabularySize } = model.configuration;
  const needed = wholeIds.length + suffixLength + maxNewTokens;
  if (needed > contextLength) {
    throw new MistletoeError(
      'context',
      `There is no room for the suffix: ${needed} positions are needed, the context has ${contextLength}.`,
      {
        hint: 'Shorten the prompt, the suffix or the answer.',
      },
    );
  }
  const answer = await decodePlain(model, {
    promptIds: wholeIds,
    maxNewTokens,
    sampling: { temperature: 0 },
    seed: 0,
    stopIds,
    tokenizer,
  });
  if (answer.tokenIds.length < window) {
    throw new MistletoeError(
      'incomplete',
      `The clean answer has ${answer.tokenIds.length} tokens; the window needs ${window}.`,
      {
        hint: 'Lower --window, or choose prompts with longer answers.',
      },
    );
  }
  const answerIds = answer.tokenIds.slice(0, window - 1);
  const tokens = Int32Array.from([...wholeIds, ...answerIds]);
  const select = Int32Array.from({ length: window }, (_, row) => wholeIds.length - 1 + row);
  const { logits } = await model.forward({ tokens, cache: model.createCache(), select, want: ['logits'] });
  return {
    id: prompt.id,
    category: prompt.category ?? null,
    text: prompt.text,
    reference: prompt.reference ?? null,
    beforeIds: wholeIds.slice(0, shared),
    afterIds: wholeIds.slice(shared),
    answer,
    cleanLogits: logits!.slice(0, window * vocabularySize),
  };
}

/** The whole prompt with a suffix, as ids. */
export function joinPrompt({ beforeIds, afterIds }: AuditPrompt, suffixIds: readonly number[]): number[] {
  return [...beforeIds, ...suffixIds, ...afterIds];
}

/** The suffix as a person would paste it. */
export function suffixText(
  { tokenizer }: Target,
  { beforeIds }: AuditPrompt,
  suffixIds: readonly number[],
): string {
  return tokenizer.decode([...beforeIds, ...suffixIds]).slice(tokenizer.decode(beforeIds).length);
}

/** Which suffixes survive decoding and encoding in place, inside the whole prompt. */
export async function keepRoundTrips(
  { tokenizer }: Target,
  prompt: AuditPrompt,
  suffixes: readonly (readonly number[])[],
): Promise<boolean[]> {
  const ids = suffixes.map((suffix) => joinPrompt(prompt, suffix));
  // What the tokenizer adds around a text (the beginning of sequence) is not part of the text.
  const texts = ids.map((whole) => tokenizer.decode(whole));
  const encoded = await tokenizer.encodeBatch(texts);
  return encoded.map((again, index) => {
    const wanted = ids[index]!;
    return again.length === wanted.length && again.every((id, place) => id === wanted[place]);
  });
}
