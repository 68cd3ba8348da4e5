/**
 * One prompt of the audit: token ids before and after the suffix, and the target's clean answer. A suffix counts only
 * if its text survives: the whole prompt with it, encoded as usual, must give the same ids.
 */
import { MistletoeError } from '../../core/errors.js';
import { firstDifference, perplexityOf } from '../../measure/kept-class.js';
import { type Generation } from '../../decode/request.js';
import { decodePlain } from '../../decode/generate.js';
import { type Target, refuseLongText } from '../../decode/target.js';
import {
  encodeRaw,
  encodeRendered,
  findAddedMarkers,
  listRoleMarkers,
} from '../../text/template/chat-template.js';
import type { Prompt } from '../../text/prompts/prompt-set.js';
import { splitAroundSuffix, splitChatAroundSuffix } from '../../text/prompts/suffix-list.js';
import type { AuditSettings } from '../settings.js';

export interface AuditPrompt {
  readonly id: string;
  readonly reference: string | null;
  readonly beforeIds: readonly number[];
  readonly afterIds: readonly number[];
  /** As text, with the template. */
  readonly rendered: RenderedPrompt;
  /** Without a suffix. */
  readonly answer: Generation;
  readonly answerPerplexity: number;
  /** The first tokens of the answer, along which suffixes are searched and measured. */
  readonly windowIds: readonly number[];
  /** Divided by the temperature, if any. [window, vocabulary] */
  readonly cleanLogits: Float32Array;
}

export interface RenderedPrompt {
  readonly before: string;
  readonly after: string;
  readonly addSpecialTokens: boolean;
  /** Chat templates trim user text: a suffix must not end in white space. */
  readonly isTrimmed: boolean;
  readonly markers?: readonly string[] | undefined;
}

export type PromptOptions = { readonly seed: number } & Pick<
  AuditSettings,
  'window' | 'shortestAnswer' | 'suffixLength' | 'maxNewTokens' | 'temperature' | 'chat'
>;

/** Throws a MistletoeError if the prompt cannot be audited. */
export async function preparePrompt(
  target: Target,
  prompt: Prompt,
  options: PromptOptions,
): Promise<AuditPrompt> {
  const { model, tokenizer, template, stopIds } = target;
  const { window, shortestAnswer, suffixLength, maxNewTokens, temperature } = options;
  const useChat = options.chat && template !== undefined;
  const place = useChat ? splitChatAroundSuffix(template, prompt.text) : splitAroundSuffix(prompt.text);
  const whole = place.before + place.after;
  const encode = (text: string): Promise<number[]> =>
    useChat ? encodeRendered(tokenizer, template, text) : encodeRaw(tokenizer, text);
  refuseLongText(target, whole, 'The prompt');
  const wholeIds = await encode(whole);
  const plainIds = await tokenizer.encode(whole);
  const beforeIds = await encode(place.before);
  const shared = firstDifference(beforeIds, wholeIds);
  if (shared === 0) {
    throw new MistletoeError('text', 'Nothing stands before the place of the suffix.', {
      hint: 'Move {suffix} behind the first word of the prompt.',
    });
  }
  const { contextLength, vocabularySize } = model.configuration;
  const needed = wholeIds.length + suffixLength + maxNewTokens;
  if (needed > contextLength) {
    throw new MistletoeError(
      'context',
      `There is no room for the suffix: ${needed} positions are needed, the context has ${contextLength}.`,
      { hint: 'Shorten the prompt, the suffix or the answer.' },
    );
  }
  const answer = await decodePlain(model, {
    promptIds: wholeIds,
    maxNewTokens,
    sampling: { temperature },
    seed: options.seed,
    stopIds,
    tokenizer,
  });
  if (answer.tokenIds.length < shortestAnswer) {
    throw new MistletoeError(
      'incomplete',
      `The clean answer has ${answer.tokenIds.length} tokens; an audit needs ${shortestAnswer}.`,
      { hint: 'Choose prompts with longer answers, or lower --shortest-answer.' },
    );
  }
  const tokens = Int32Array.from([...wholeIds, ...answer.tokenIds.slice(0, -1)]);
  const select = Int32Array.from(answer.tokenIds, (_, row) => wholeIds.length - 1 + row);
  const cache = model.createCache();
  const { logits, rows } = await model.forward({ tokens, cache, select, want: ['logits'] }).finally(() => {
    cache.release();
  });
  rows.free();
  const windowIds = answer.tokenIds.slice(0, window);
  const cleanLogits = logits!.slice(0, windowIds.length * vocabularySize);
  return {
    id: prompt.id,
    reference: prompt.reference ?? null,
    beforeIds: wholeIds.slice(0, shared),
    afterIds: wholeIds.slice(shared),
    rendered: {
      ...(shared === beforeIds.length ? place : moveToToken(target, whole, wholeIds.slice(shared))),
      addSpecialTokens: useChat ? template.addSpecialTokens : plainIds.length === wholeIds.length,
      isTrimmed: useChat,
      markers: listRoleMarkers(useChat ? template : undefined, tokenizer),
    },
    answer,
    answerPerplexity: perplexityOf(logits!, answer.tokenIds),
    windowIds,
    cleanLogits: temperature === 0 ? cleanLogits : cleanLogits.map((logit) => logit / temperature),
  };
}

/** If a token spans the suffix's position, the position moves to the token's start. */
function moveToToken(
  { tokenizer }: Target,
  whole: string,
  afterIds: readonly number[],
): Pick<RenderedPrompt, 'before' | 'after'> {
  const after = tokenizer.decode(afterIds, { skipSpecialTokens: false });
  if (whole.endsWith(after)) return { before: whole.slice(0, whole.length - after.length), after };
  throw new MistletoeError('text', 'The place of the suffix lies inside a token that cannot be cut.', {
    hint: 'Put {suffix} at the end of a word.',
  });
}

export function joinPrompt({ beforeIds, afterIds }: AuditPrompt, suffixIds: readonly number[]): number[] {
  return [...beforeIds, ...suffixIds, ...afterIds];
}

export function suffixText(
  { tokenizer }: Target,
  { beforeIds }: AuditPrompt,
  suffixIds: readonly number[],
): string {
  return tokenizer.decode([...beforeIds, ...suffixIds]).slice(tokenizer.decode(beforeIds).length);
}

/** Refused if it merges with the text around it. */
export async function encodeSuffix(
  target: Target,
  prompt: AuditPrompt,
  text: string,
  place: string,
): Promise<readonly number[]> {
  const { before, after, addSpecialTokens } = prompt.rendered;
  const { beforeIds, afterIds } = prompt;
  const whole = await target.tokenizer.encode(before + text + after, { addSpecialTokens });
  const suffixIds = whole.slice(beforeIds.length, whole.length - afterIds.length);
  // Unlike a searched suffix, a given one may contain role markers: it is measured and flagged.
  const unmarked = { ...prompt, rendered: { ...prompt.rendered, markers: [] } };
  const [survives] = suffixIds.length === 0 ? [false] : await keepRoundTrips(target, unmarked, [suffixIds]);
  if (survives === true && suffixText(target, prompt, suffixIds) === text) return suffixIds;
  throw new MistletoeError(
    'text',
    `The suffix of ${place} does not survive in this prompt: encoded behind it, it is not the same text any more.`,
    { hint: 'Begin it with a space, and do not end it with one; or put {suffix} elsewhere in the prompt.' },
  );
}

/**
 * Suffixes that survive as text: encoded in the whole prompt they give the same ids and add no role markers.
 */
export async function keepRoundTrips(
  target: Target,
  prompt: AuditPrompt,
  suffixes: readonly (readonly number[])[],
): Promise<boolean[]> {
  const { before, after, addSpecialTokens, isTrimmed, markers = [] } = prompt.rendered;
  const texts = suffixes.map((suffix) => suffixText(target, prompt, suffix));
  const encoded = await target.tokenizer.encodeBatch(
    texts.map((text) => before + text + after),
    { addSpecialTokens },
  );
  return encoded.map((again, index) => {
    if (isTrimmed && texts[index]!.trimEnd() !== texts[index]) return false;
    if (findAddedMarkers(prompt.rendered, texts[index]!, markers).length > 0) return false;
    const wanted = joinPrompt(prompt, suffixes[index]!);
    return again.length === wanted.length && again.every((id, place) => id === wanted[place]);
  });
}
