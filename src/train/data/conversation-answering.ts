/**
 * One conversation, turn after turn. The prompt of a turn is the whole conversation before it, encoded as a server would
 * encode it. It usually begins with the ids of the turn before and its answer, so that all turns are one sequence; where
 * it does not (a template that strips an answer or leaves its reasoning out, an answer that is no one's first choice of
 * tokens for its text), the turn begins a sequence of its own.
 */
import { MistletoeError } from '../../core/errors.js';
import { createRandom } from '../../core/random.js';
import type { SamplingOptions } from '../../core/sampling.js';
import type { Engine } from '../../decode/engine/engine.js';
import { decodePlain } from '../../decode/plain.js';
import { sequenceBytes } from '../../decode/engine/sequence-bytes.js';
import type { Target } from '../../decode/target.js';
import { completeRequest, encodePrompt, refuseLongText } from '../../decode/target.js';
import type { ChatMessage } from '../../text/template/chat-template.js';
import { encodeRaw, encodeRendered, renderChat } from '../../text/template/chat-template.js';
import type { AnswerEnd, AnsweredConversation, AnsweredTurn } from './answers-file.js';
import type { Conversation } from './conversations.js';

export interface Answering {
  readonly target: Target;
  readonly engine: Engine;
  /** Of the engine, for all that it runs. */
  readonly memoryBytes: number;
  readonly maxNewTokens: number;
  readonly sampling: SamplingOptions;
  readonly seed: number;
  /** Whether answers of the conversation are passed over and written anew. */
  readonly regenerate: boolean;
}

interface Question {
  readonly messages: readonly ChatMessage[];
  readonly ids: readonly number[];
}

interface WrittenAnswer {
  readonly ids: readonly number[];
  readonly ended: AnswerEnd;
  /** What the assistant may have said, when the conversation goes on. */
  readonly spellings: readonly string[];
}

/** Undefined where it was aborted. */
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
      const ways = spellings.length === 0 ? [history] : spellings.map((text) => [...history, say(text)]);
      const question = await encodeGoingOn(answering.target, ways, message, { sequence, name });
      const next = messages[index + 1];
      const answer =
        next?.role === 'assistant' && !answering.regenerate
          ? await takeGiven(answering.target, question, next.content, name)
          : await write(answering, question, drawSeed(answering, id, turns.length), signal);
      if (answer === undefined) return undefined;
      const kept = countShared(sequence, question.ids);
      const promptIds = Int32Array.from(question.ids.slice(kept));
      turns.push({ kept, promptIds, answerIds: Int32Array.from(answer.ids), ended: answer.ended });
      sequence = [...question.ids, ...answer.ids];
      history = question.messages;
      spellings = answer.spellings;
    }
  } catch (cause) {
    if (!(cause instanceof MistletoeError)) throw cause;
    // Behind long answers there may be no room for the next question; what was said until then counts.
    if (cause.code === 'context') return { id, turns, isCut: true };
    throw cause.message.startsWith(name) ? cause : nameCause(cause, name);
  }
  return { id, turns, isCut: false };
}

const say = (content: string): ChatMessage => ({ role: 'assistant', content });

/** The next prompt: by the first way of writing what was said that gives its very ids again, else by the last. */
async function encodeGoingOn(
  target: Target,
  ways: readonly (readonly ChatMessage[])[],
  message: ChatMessage,
  { sequence, name }: { readonly sequence: readonly number[]; readonly name: string },
): Promise<Question> {
  let question: Question | undefined;
  for (const way of ways) {
    const messages = [...way, message];
    question = { messages, ids: await encodeQuestion(target, messages, name) };
    if (countShared(sequence, question.ids) === sequence.length) break;
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
  const generation = await engine.run(
    (scheduler) => decodePlain(target.model, { ...request, scheduler }),
    room,
  );
  const { tokenIds, finishReason, text } = generation;
  if (finishReason === 'aborted' || finishReason === 'stop-string') return undefined;
  // Many templates write a blank where the answer's first token brings its own.
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

/** Of the conversation and its turn alone, whoever else is answered meanwhile. */
function drawSeed({ seed }: Answering, id: string, turn: number): number {
  return createRandom(seed, 'answers', id, String(turn)).nextInteger(2 ** 32);
}

function nameCause(cause: MistletoeError, name: string): MistletoeError {
  return new MistletoeError(cause.code, `${name} cannot be asked: ${cause.message}`, {
    cause,
    ...(cause.hint === undefined ? {} : { hint: cause.hint }),
  });
}

/**
 * Turns of a conversation as token ids. A prompt is encoded as it is when the target is asked, so that a drafter learns
 * behind the very ids that it will be used behind. An answer that somebody else gives is encoded together with its
 * prompt, because pieces of text depend on what stands before them; it can be learnt only if the prompt's ids are still
 * the beginning then.
 */
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
function countShared(left: readonly number[], right: readonly number[]): number {
  let shared = 0;
  while (shared < left.length && shared < right.length && left[shared] === right[shared]) shared += 1;
  return shared;
}
