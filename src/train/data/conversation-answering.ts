/**
 * Answers one conversation turn by turn. The prompt of a turn is the whole conversation before it, encoded as a
 * server would encode it. It usually begins with the previous turn's ids and answer, so all turns are one sequence.
 * If it does not (the template strips part of an answer, or the answer is not the tokenizer's first choice for its
 * text), the turn starts a new sequence.
 */
import { MistletoeError } from '../../core/errors.js';
import { createRandom } from '../../core/random.js';
import type { SamplingOptions } from '../../core/sampling.js';
import { type Engine, sequenceBytes } from '../../decode/engine.js';
import { decodePlain } from '../../decode/generate.js';
import { type Target, encodePrompt, refuseLongText } from '../../decode/target.js';
import { completeRequest } from '../../decode/generate.js';
import { firstDifference } from '../../measure/kept-class.js';
import type { ChatMessage } from '../../text/template/chat-template.js';
import { encodeRaw, encodeRendered, renderChat } from '../../text/template/chat-template.js';
import type { AnsweredConversation, AnsweredTurn } from './answers-file.js';
import type { Conversation } from './conversations.js';

export interface Answering {
  readonly target: Target;
  readonly engine: Engine;
  readonly memoryBytes: number;
  readonly maxNewTokens: number;
  readonly sampling: SamplingOptions;
  readonly seed: number;
  /** Whether the target writes the answers; if not, the conversation has them all. */
  readonly generate: boolean;
}

interface Question {
  readonly messages: readonly ChatMessage[];
  readonly ids: readonly number[];
}

interface WrittenAnswer {
  readonly ids: readonly number[];
  readonly ended: AnsweredTurn['ended'];
  /** Texts to try for this answer in the next prompt. */
  readonly spellings: readonly string[];
}

export async function answerConversation(
  answering: Answering,
  { id, messages }: Conversation,
  signal: AbortSignal,
): Promise<AnsweredConversation | undefined> {
  const name = `The conversation ${id}`;
  const turns: AnsweredTurn[] = [];
  let history: readonly ChatMessage[] = messages.filter(({ role }) => role === 'system');
  let spellings: readonly string[] = [];
  let sequence: readonly number[] = [];
  try {
    for (const [index, message] of messages.entries()) {
      if (message.role !== 'user') continue;
      const said = (content: string): ChatMessage => ({ role: 'assistant', content });
      const histories =
        spellings.length === 0 ? [history] : spellings.map((text) => [...history, said(text)]);
      const question = await encodeNext(answering.target, histories, message, { sequence, name });
      const random = createRandom(answering.seed, 'answers', id, String(turns.length));
      const answer = answering.generate
        ? await write(answering, question, random.nextInteger(2 ** 32), signal)
        : await takeGiven(answering.target, question, messages[index + 1]!.content, name);
      if (answer === undefined) return undefined;
      const kept = firstDifference(sequence, question.ids);
      const prompt = Int32Array.from(question.ids.slice(kept));
      turns.push({ kept, prompt, answer: Int32Array.from(answer.ids), ended: answer.ended });
      sequence = [...question.ids, ...answer.ids];
      history = question.messages;
      spellings = answer.spellings;
    }
  } catch (cause) {
    if (!(cause instanceof MistletoeError)) throw cause;
    // After long answers the next question may not fit; the turns before it count.
    if (cause.code === 'context') return { id, turns, cut: true };
    if (cause.message.startsWith(name)) throw cause;
    const { code, message, hint } = cause;
    throw new MistletoeError(code, `${name} cannot be asked: ${message}`, { cause, hint });
  }
  return { id, turns, cut: false };
}

/** Takes the first spelling of the previous answer that encodes to the same ids, else the last. */
async function encodeNext(
  target: Target,
  histories: readonly (readonly ChatMessage[])[],
  message: ChatMessage,
  { sequence, name }: { readonly sequence: readonly number[]; readonly name: string },
): Promise<Question> {
  let question: Question | undefined;
  for (const past of histories) {
    const messages = [...past, message];
    question = { messages, ids: await encodeQuestion(target, messages, name) };
    if (firstDifference(sequence, question.ids) === sequence.length) break;
  }
  return question!;
}

async function write(
  { target, engine, memoryBytes, maxNewTokens, sampling }: Answering,
  { ids }: Question,
  seed: number,
  signal: AbortSignal,
): Promise<WrittenAnswer | undefined> {
  const request = completeRequest(target, ids, { maxNewTokens, sampling, seed, signal });
  const room = { bytes: Math.min(sequenceBytes(request, target.model), memoryBytes), signal };
  const generation = await engine.run(() => decodePlain(target.model, { ...request, engine }), room);
  const { tokenIds, finishReason, text } = generation;
  if (finishReason === 'aborted' || finishReason === 'stop-string') return undefined;
  // Many templates write a space where the answer's first token has its own.
  const spellings = [...new Set([text.replace(/^ /, ''), text, text.trim()])];
  return { ids: tokenIds, ended: finishReason, spellings };
}

async function takeGiven(
  target: Target,
  question: Question,
  answer: string,
  name: string,
): Promise<WrittenAnswer> {
  const ids = await encodeGivenAnswer(target, question, answer, name);
  const room = target.model.configuration.contextLength - question.ids.length;
  return { ids: ids.slice(0, room), ended: ids.length > room ? 'context' : 'given', spellings: [answer] };
}

export function encodeQuestion(
  target: Target,
  messages: readonly ChatMessage[],
  name: string,
): Promise<number[]> {
  // Without a chat template, only a single message can be sent.
  const [first, ...others] = messages;
  const isText = target.template === undefined && others.length === 0 && first?.role === 'user';
  return encodePrompt(target, isText ? first.content : messages, { name });
}

/**
 * The answer's ids, up to its first stop token. Prompt and answer are encoded together, because tokenization depends
 * on the preceding text; the prompt's ids must be a prefix of the result.
 */
export async function encodeGivenAnswer(
  target: Target,
  { messages, ids: promptIds }: Question,
  answer: string,
  name: string,
): Promise<number[]> {
  const { template, tokenizer, stopIds } = target;
  const given: ChatMessage = { role: 'assistant', content: answer };
  const prompt = template === undefined ? messages[0]!.content : renderChat(template, messages);
  const whole = template === undefined ? prompt + answer : renderChat(template, [...messages, given], false);
  if (!whole.startsWith(prompt)) throw inseparable(target, name, 'it writes them into each other');
  refuseLongText(target, whole, name);
  const wholeIds =
    template === undefined
      ? await encodeRaw(tokenizer, whole)
      : await encodeRendered(tokenizer, template, whole);
  let answerIds = wholeIds.slice(promptIds.length);
  if (firstDifference(promptIds, wholeIds) < promptIds.length) {
    // A token spans the end of the prompt. When the target answers, it starts a new token there, so the answer is encoded
    // alone. Tokenizers that change the text that way are refused.
    answerIds = await tokenizer.encode(whole.slice(prompt.length), { addSpecialTokens: false });
    const decode = (ids: readonly number[]): string => tokenizer.decode(ids, { skipSpecialTokens: false });
    if (decode([...promptIds, ...answerIds]) !== decode(wholeIds))
      throw inseparable(target, name, 'a token reaches from one into the other');
  }
  const stop = answerIds.findIndex((id) => stopIds.includes(id));
  return stop < 0 ? answerIds : answerIds.slice(0, stop + 1);
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
