/**
 * Turns of a conversation as token ids. A prompt is encoded as it is when the target is asked, so that a drafter learns
 * behind the very ids that it will be used behind. An answer that somebody else gives is encoded together with its
 * prompt, because pieces of text depend on what stands before them; it can be learnt only if the prompt's ids are still
 * the beginning then.
 */
import { MistletoeError } from '../core/errors.js';
import type { Target } from '../decode/target.js';
import { encodePrompt, refuseLongText } from '../decode/target.js';
import type { ChatMessage } from '../text/template/chat-template.js';
import { encodeRaw, encodeRendered, renderChat } from '../text/template/chat-template.js';

/** The ids up to where the assistant's answer to the last message begins. */
export function encodeQuestion(
  target: Target,
  messages: readonly ChatMessage[],
  name: string,
): Promise<number[]> {
  return encodePrompt(target, target.template === undefined ? asText(messages) : messages, { name });
}

/** Without a chat template one message is sent as it is; several cannot be. */
function asText(messages: readonly ChatMessage[]): string | readonly ChatMessage[] {
  const [first, ...others] = messages;
  return others.length === 0 && first?.role === 'user' ? first.content : messages;
}

/** The ids that the answer adds to those of its prompt, up to the first one that ends an answer. */
export async function encodeGivenAnswer(
  target: Target,
  question: { readonly messages: readonly ChatMessage[]; readonly ids: readonly number[] },
  answer: string,
  name: string,
): Promise<number[]> {
  const { template, tokenizer, stopIds } = target;
  const { messages, ids: promptIds } = question;
  const given: ChatMessage = { role: 'assistant', content: answer };
  const prompt = template === undefined ? messages[0]!.content : renderChat(template, messages);
  const whole =
    template === undefined
      ? prompt + answer
      : renderChat(template, [...messages, given], { addGenerationPrompt: false });
  if (!whole.startsWith(prompt)) throw inseparable(target, name, 'it writes them into each other');
  refuseLongText(target, whole, name);
  const wholeIds =
    template === undefined
      ? await encodeRaw(tokenizer, whole)
      : await encodeRendered(tokenizer, template, whole);
  const answerIds =
    countShared(promptIds, wholeIds) === promptIds.length
      ? wholeIds.slice(promptIds.length)
      : await encodeApart(target, { prompt, promptIds, whole, wholeIds }, name);
  const stop = answerIds.findIndex((id) => stopIds.includes(id));
  return stop < 0 ? answerIds : answerIds.slice(0, stop + 1);
}

interface Straddled {
  readonly prompt: string;
  readonly promptIds: readonly number[];
  readonly whole: string;
  readonly wholeIds: readonly number[];
}

/**
 * Where a token of the whole text straddles the place at which the answer begins. The target, when it answers, begins a
 * token there, so the answer's text is encoded by itself; tokenizers that change a text by that are refused.
 */
async function encodeApart(
  target: Target,
  { prompt, promptIds, whole, wholeIds }: Straddled,
  name: string,
): Promise<number[]> {
  const { tokenizer } = target;
  const apart = await tokenizer.encode(whole.slice(prompt.length), { addSpecialTokens: false });
  const decode = (ids: readonly number[]): string => tokenizer.decode(ids, { skipSpecialTokens: false });
  if (decode([...promptIds, ...apart]) === decode(wholeIds)) return apart;
  throw inseparable(target, name, 'a token reaches from one into the other');
}

function inseparable({ template, folder }: Target, name: string, reason: string): MistletoeError {
  const writer =
    template === undefined ? `the tokenizer of ${folder}` : `the chat template in ${template.origin}`;
  return new MistletoeError(
    'text',
    `${name} has an answer that cannot be told from its prompt: ${writer} does not write the prompt and then the answer, ${reason}.`,
    { hint: 'Let the target write the answers anew, or choose another template by --chat-template.' },
  );
}

/** How many ids two lists have in common at their beginning. */
export function countShared(left: readonly number[], right: readonly number[]): number {
  let shared = 0;
  while (shared < left.length && shared < right.length && left[shared] === right[shared]) shared += 1;
  return shared;
}
