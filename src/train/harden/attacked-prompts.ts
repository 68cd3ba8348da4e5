/** Selects the prompts that each round attacks. */
import { createRandom } from '../../core/random.js';
import type { Prompt } from '../../text/prompts/prompt-set.js';
import type { Conversation } from '../data/conversations.js';
import type { Example } from '../data/examples.js';

/** The first user message of each training conversation, shuffled. */
export function listPrompts(
  conversations: readonly Conversation[],
  training: readonly Example[],
  seed: number,
): readonly Prompt[] {
  const trained = new Set(training.map(({ id, conversationId = id }) => conversationId));
  const prompts = conversations.flatMap(({ id, messages }): Prompt[] => {
    const asked = messages.find(({ role }) => role === 'user')?.content;
    return asked !== undefined && trained.has(id) ? [{ id, text: asked, turns: [asked] }] : [];
  });
  createRandom(seed, 'hardening prompts').shuffle(prompts);
  return prompts;
}

/** Starts again from the beginning if there are too few. */
export function takeRound<Item>(prompts: readonly Item[], round: number, count: number): readonly Item[] {
  const taken = Math.min(count, prompts.length);
  return Array.from({ length: taken }, (_, place) => prompts[(round * taken + place) % prompts.length]!);
}
