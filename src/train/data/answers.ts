/**
 * The target's own answers to conversations. A drafter is to foresee what its target says, so that is what it learns
 * from: by default every answer is written anew, turn after turn, each behind the target's own earlier ones.
 *
 * Several conversations are answered at once; what is said in one does not depend on the others, nor on how many there
 * are. Each is written to the run's file as soon as it is finished. The longest go first: a pass takes as long as the
 * longest sequence in it asks for, so those of like length should meet.
 */
import { createHash } from 'node:crypto';
import { totalmem } from 'node:os';
import { MistletoeError } from '../../core/errors.js';
import type { SamplingOptions } from '../../core/sampling.js';
import { checkSamplingOptions } from '../../core/sampling.js';
import { Engine } from '../../decode/engine/engine.js';
import type { Target } from '../../decode/target.js';
import type { AnsweredConversation } from './answers-file.js';
import { AnswersFile } from './answers-file.js';
import type { Answering } from './conversation-answering.js';
import { answerConversation } from './conversation-answering.js';
import type { Conversation } from './conversations.js';

export interface AnswersRequest {
  readonly target: Target;
  readonly conversations: readonly Conversation[];
  /** Where answers are kept: answers.jsonl of the run. */
  readonly file: string;
  readonly maxNewTokens: number;
  /** Greedy by default. */
  readonly sampling?: SamplingOptions | undefined;
  /** Of drawn answers, together with the conversation's id. Default 0. */
  readonly seed?: number | undefined;
  /** Conversations that are answered at the same time. Default 32. */
  readonly concurrency?: number | undefined;
  /** Bytes that their keys and values may need together; what needs more runs alone. Default: a quarter of the memory. */
  readonly memoryBytes?: number | undefined;
  /** Whether the target may be asked at all; where not, the data must have every answer. Default true. */
  readonly generate?: boolean | undefined;
  /** Whether answers in the data are replaced by the target's own; by default wherever it may be asked. */
  readonly regenerate?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((progress: AnswersProgress) => void) | undefined;
}

export interface AnswersProgress {
  /** Conversations, those of an earlier start of the run among them. */
  readonly done: number;
  readonly total: number;
  /** Tokens that the target has written since this start. */
  readonly newTokens: number;
}

export interface Answers {
  /** In the order in which they were asked for, whatever the order of their answers. */
  readonly conversations: readonly AnsweredConversation[];
  /** Conversations whose last turns, or all, did not fit the context. */
  readonly cutCount: number;
  /** Aborted before all were answered. */
  readonly interrupted: boolean;
}

/**
 * @example
 * const { conversations } = await answerConversations({ target, conversations, file, maxNewTokens: 256 });
 */
export async function answerConversations(request: AnswersRequest): Promise<Answers> {
  const plan = completePlan(request);
  const { conversations, onProgress } = request;
  const asked = new Map(conversations.map((conversation) => [conversation.id, digestOf(conversation, plan)]));
  const file = await AnswersFile.open(request.file, asked);
  try {
    const missing = conversations.filter(({ id }) => file.get(id) === undefined);
    const total = conversations.length;
    let done = total - missing.length;
    let newTokens = 0;
    onProgress?.({ done, total, newTokens });
    await forEachAtOnce(longestFirst(missing), plan, async (conversation, signal) => {
      const answered = await answerConversation(plan, conversation, signal);
      if (answered === undefined) return;
      file.add(answered, asked.get(conversation.id)!);
      done += 1;
      newTokens += countNewTokens(answered);
      onProgress?.({ done, total, newTokens });
    });
    const found = conversations.flatMap(({ id }) => file.get(id) ?? []);
    const cutCount = found.filter(({ isCut }) => isCut).length;
    return { conversations: found, cutCount, interrupted: found.length < total };
  } finally {
    file.close();
  }
}

/** More than when serving: only the total time matters. */
const defaultConcurrency = 32;

interface AnswersPlan extends Answering {
  readonly concurrency: number;
  readonly signal: AbortSignal | undefined;
}

function completePlan(request: AnswersRequest): AnswersPlan {
  const { target, maxNewTokens, sampling = { temperature: 0 }, seed = 0, signal } = request;
  const { concurrency = defaultConcurrency, memoryBytes = totalmem() / 4, generate = true } = request;
  const { regenerate = generate } = request;
  checkSamplingOptions(sampling);
  if (!generate) refuseUnanswered(request.conversations, regenerate);
  const engine = new Engine({ concurrency, memoryBytes });
  return { target, engine, memoryBytes, maxNewTokens, sampling, seed, concurrency, regenerate, signal };
}

/** Where the target may not be asked, whatever has no answer cannot be learnt from. */
export function refuseUnanswered(conversations: readonly Conversation[], regenerate = false): void {
  const first = conversations.find(({ messages }) =>
    messages.some(({ role }, index) => role === 'user' && messages[index + 1]?.role !== 'assistant'),
  );
  if (first === undefined && !regenerate) return;
  const lack =
    first === undefined
      ? 'every answer is to be written anew'
      : `the conversation ${first.id} has a question without an answer`;
  throw new MistletoeError('usage', `The target may not generate, but ${lack}.`, {
    hint: 'Let the target write the answers, or give data in which every question has one.',
  });
}

/** Digest of everything that determines the answers except the target, which the run records. */
function digestOf({ messages }: Conversation, plan: AnswersPlan): string {
  const { maxNewTokens, sampling, seed, regenerate } = plan;
  const { temperature, topK = null, topP = null } = sampling;
  const drawing = temperature === 0 ? null : [temperature, topK, topP, seed];
  const texts = messages
    .filter(({ role }) => !regenerate || role !== 'assistant')
    .map(({ role, content }) => [role, content]);
  const text = JSON.stringify([texts, regenerate, maxNewTokens, drawing]);
  return createHash('sha256').update(text).digest('hex').slice(0, 16);
}

function countNewTokens({ turns }: AnsweredConversation): number {
  return turns.reduce((sum, { answerIds, ended }) => sum + (ended === 'given' ? 0 : answerIds.length), 0);
}

function longestFirst(conversations: readonly Conversation[]): readonly Conversation[] {
  const lengthOf = ({ messages }: Conversation): number =>
    messages.reduce((sum, { content }) => sum + content.length, 0);
  return [...conversations].sort((left, right) => lengthOf(right) - lengthOf(left));
}

/** A failure stops all workers and is thrown once all have stopped. */
async function forEachAtOnce<Item>(
  items: readonly Item[],
  { concurrency, signal }: AnswersPlan,
  work: (item: Item, signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const failure = new AbortController();
  const either = signal === undefined ? failure.signal : AbortSignal.any([signal, failure.signal]);
  const left = items.values();
  const workers = Array.from({ length: Math.min(concurrency, items.length) }, async () => {
    try {
      for (const item of left) {
        if (either.aborted) return;
        await work(item, either);
      }
    } catch (cause) {
      failure.abort();
      throw cause;
    }
  });
  const failed = (await Promise.allSettled(workers)).find(({ status }) => status === 'rejected');
  if (failed?.status === 'rejected') throw failed.reason;
}
