/** The requests of bench/defences.ts: a prompt without a suffix, with the one that was made for a drafter, with a random one. */
import { listAllowedTokens } from '../src/audit/allowed-tokens.js';
import { encodeSuffix, joinPrompt, preparePrompt } from '../src/audit/audit-prompt.js';
import { drawRandomSuffix } from '../src/audit/controls.js';
import { createRandom } from '../src/core/random.js';
import type { Target } from '../src/decode/target.js';
import type { PassScheduler } from '../src/model/lanes/pass-scheduler.js';
import type { Arm } from './defence-table.js';
import type { Attack } from './guard-traces.js';
import { planBenign } from './guard-traces.js';

export interface HeldRequest {
  readonly promptIds: readonly number[];
  /** The clean answer, which every defence is measured along. */
  readonly held: readonly number[];
  readonly scheduler?: PassScheduler;
}

/** The random suffix is as long as the one that was made for the prompt. */
export async function prepareRequests(
  target: Target,
  attacks: readonly Attack[],
  newTokens: number,
): Promise<readonly Record<Arm, HeldRequest>[]> {
  const { tokenizer, model } = target;
  const allowed = listAllowedTokens(tokenizer, model.configuration.vocabularySize, { allowNonAscii: false });
  const benign = await planBenign(0);
  const found: Record<Arm, HeldRequest>[] = [];
  for (const { prompt, suffix } of attacks) {
    const plan = benign.find((each) => each.prompt === prompt);
    if (plan === undefined) continue;
    try {
      const text = { id: prompt, text: plan.text, turns: [plan.text] };
      const prepared = await preparePrompt(target, text, {
        ...{ window: newTokens, shortestAnswer: 16, suffixLength: 24, maxNewTokens: newTokens },
        ...{ temperature: 0, chat: true, seed: 0 },
      });
      const suffixIds = await encodeSuffix(target, prepared, suffix, prompt);
      const random = createRandom(0, 'defences', prompt);
      const drawn = await drawRandomSuffix(target, prepared, allowed, suffixIds.length, random);
      const held = prepared.answer.tokenIds;
      found.push({
        clean: { promptIds: joinPrompt(prepared, []), held },
        attacked: { promptIds: joinPrompt(prepared, suffixIds), held },
        random: { promptIds: joinPrompt(prepared, drawn), held },
      });
    } catch (cause) {
      console.error(`${prompt} is left out:`, cause instanceof Error ? cause.message : cause);
    }
  }
  return found;
}

/** So many of them, evenly from first to last. */
export function spread<Item>(items: readonly Item[], most: number): readonly Item[] {
  const every = Math.max(1, items.length / most);
  return Array.from(
    { length: Math.min(most, items.length) },
    (_, index) => items[Math.floor(index * every)]!,
  );
}
