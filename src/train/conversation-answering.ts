/**
 * One conversation, turn after turn. The prompt of a turn is the whole conversation before it, encoded as a server would
 * encode it. It usually begins with the ids of the turn before and its answer, so that all turns are one sequence; where
 * it does not (a template that strips an answer or leaves its reasoning out, an answer that is no one's first choice of
 * tokens for its text), the turn begins a sequence of its own.
 */
import { MistletoeError } from '../core/errors.js';
import { createRandom } from '../core/random.js';
import type { SamplingOptions } from '../core/sampling.js';
import type { Engine } from '../decode/engine/engine.js';
import { decodePlain } from '../decode/plain.js';
import { sequenceBytes } from '../decode/engine/sequence-bytes.js';
import type { Target } from '../decode/target.js';
import { completeRequest } from '../decode/target.js';
import type { ChatMessage } from '../text/chat-template.js';
import type { AnsweredConversation, AnsweredTurn, AnswerEnd } from './answers-file.js';
import type { Conversation } from './conversations.js';
import { countShared, encodeGivenAnswer, encodeQuestion } from './turn-encoding.js';

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
