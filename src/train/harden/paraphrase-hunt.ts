/**
 * Reworded questions in place of suffixes: a baseline that costs no search, and shows what other words alone do for a
 * drafter.
 */
import { MistletoeError } from '../../core/errors.js';
import { createRandom } from '../../core/random.js';
import type { Target } from '../../decode/target.js';
import { encodePrompt } from '../../decode/target.js';
import type { Prompt } from '../../text/prompts/prompt-set.js';
import { rewordQuestion } from './paraphrase.js';
import type { HuntedPrompt, HuntOptions, PromptHunt } from './suffix-hunt.js';

export class ParaphraseHunt implements PromptHunt {
  constructor(private readonly target: Target) {}

  /** A question whose rewordings leave no room for an answer is passed over: there are others. */
  async hunt(
    { text }: Prompt,
    { settings: { chat, maxNewTokens }, seed, name, count, signal }: HuntOptions,
  ): Promise<HuntedPrompt> {
    const { template, model } = this.target;
    const promptIds: (readonly number[])[] = [];
    let skipped: string | null = null;
    for (const reworded of rewordQuestion(text, count, createRandom(seed, 'hunt', 'paraphrase', name))) {
      try {
        const options = { chat: chat && template !== undefined, name: 'The reworded question' };
        const ids = await encodePrompt(this.target, reworded, options);
        const needed = ids.length + maxNewTokens;
        if (needed <= model.configuration.contextLength) promptIds.push(ids);
        else skipped ??= `There is no room for an answer: ${needed} positions are needed.`;
      } catch (cause) {
        const isExpected = cause instanceof MistletoeError && ['context', 'text'].includes(cause.code);
        if (!isExpected) throw cause;
        skipped ??= cause.message;
      }
    }
    signal?.throwIfAborted();
    return {
      ...{ promptIds, lengths: promptIds.map(() => null) },
      skipped: promptIds.length === 0 ? skipped : null,
    };
  }

  dispose(): Promise<void> {
    return Promise.resolve();
  }
}
