/**
 * The target's own answers to conversations: a drafter learns to predict what its target says. Every answer is
 * generated again, turn by turn, after the target's own earlier answers, unless the data's answers are used as they are.
 * Several conversations are answered at once, and no answer depends on the others. Each is written to the run's file
 * when it is finished. The longest go first, so that sequences of similar length share passes.
 */
import { createHash } from 'node:crypto';
import { totalmem } from 'node:os';
import { MistletoeError } from '../../core/errors.js';
import type { SamplingOptions } from '../../core/sampling.js';
import { Engine } from '../../decode/engine.js';
import type { Target } from '../../decode/target.js';
import { AnswersFile } from './answers-file.js';
import { type Answering, answerConversation } from './conversation-answering.js';
import type { Conversation } from './conversations.js';

export interface AnswersRequest {
  readonly target: Target;
  readonly conversations: readonly Conversation[];
  readonly file: string;
  readonly maxNewTokens: number;
  readonly sampling: SamplingOptions;
  /** Used with the conversation's id. */
  readonly seed: number;
  /** Whether the target writes every answer; if not, they are taken from the data. */
  readonly generate: boolean;
  readonly concurrency?: number | undefined;
  /** For all keys and values together; a larger conversation runs alone. Default: a quarter of the memory. */
  readonly memoryBytes?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((progress: AnswersProgress) => void) | undefined;
}

export interface AnswersProgress {
  /** Includes conversations of earlier starts. */
  readonly done: number;
  readonly total: number;
  readonly newTokens: number;
}

export async function answerConversations(request: AnswersRequest) {
  const { conversations, onProgress, signal } = request;
  const { concurrency = defaultConcurrency, memoryBytes = totalmem() / 4 } = request;
  const engine = new Engine({ concurrency, memoryBytes });
  const answering: Answering = { ...request, engine, memoryBytes };
  const asked = new Map(conversations.map((each) => [each.id, digestOf(each, request)]));
  const file = await AnswersFile.open(request.file, asked);
  try {
    const missing = conversations.filter(({ id }) => file.get(id) === undefined);
    const total = conversations.length;
    let done = total - missing.length;
    let newTokens = 0;
    onProgress?.({ done, total, newTokens });
    const lengthOf = ({ messages }: Conversation): number =>
      messages.reduce((sum, { content }) => sum + content.length, 0);
    const longestFirst = missing.toSorted((left, right) => lengthOf(right) - lengthOf(left));
    await forEachAtOnce(longestFirst, { concurrency, signal }, async (conversation, signal) => {
      const answered = await answerConversation(answering, conversation, signal);
      if (answered === undefined) return;
      file.add(answered, asked.get(conversation.id)!);
      done += 1;
      for (const { answer, ended } of answered.turns) if (ended !== 'given') newTokens += answer.length;
      onProgress?.({ done, total, newTokens });
    });
    const found = conversations.flatMap(({ id }) => file.get(id) ?? []);
    const cutCount = found.filter(({ cut }) => cut).length;
    return { conversations: found, cutCount, interrupted: found.length < total };
  } finally {
    file.close();
  }
}

/** Higher than for serving: only the total time matters. */
const defaultConcurrency = 32;

/** Without the target's answers, the data must have every one. */
export function refuseUnanswered(conversations: readonly Conversation[]): void {
  const first = conversations.find(({ messages }) =>
    messages.some(({ role }, index) => role === 'user' && messages[index + 1]?.role !== 'assistant'),
  );
  if (first === undefined) return;
  throw new MistletoeError(
    'usage',
    `The target may not generate, but the conversation ${first.id} has a question without an answer.`,
    { hint: 'Let the target write the answers, or give data in which every question has one.' },
  );
}

/** Digest of everything that determines the answers except the target, which the run records. */
function digestOf({ messages }: Conversation, request: AnswersRequest): string {
  const { maxNewTokens, sampling, seed, generate } = request;
  const { temperature, topK = null, topP = null } = sampling;
  const drawing = temperature === 0 ? null : [temperature, topK, topP, seed];
  const texts = messages
    .filter(({ role }) => !generate || role !== 'assistant')
    .map(({ role, content }) => [role, content]);
  const text = JSON.stringify([texts, generate, maxNewTokens, drawing]);
  return createHash('sha256').update(text).digest('hex').slice(0, 16);
}

/** A failure stops all workers and is thrown once all have stopped. */
async function forEachAtOnce<Item>(
  items: readonly Item[],
  { concurrency, signal }: { readonly concurrency: number; readonly signal: AbortSignal | undefined },
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
