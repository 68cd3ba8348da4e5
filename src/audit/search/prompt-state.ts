/**
 * What target and drafter keep of a prompt before the suffix, or of a suffix before an edit: computed once, shared by
 * candidates.
 */
import { MistletoeError } from '../../core/errors.js';
import { prefill } from '../../decode/prompt-reading.js';
import { outputsFor, statesOf } from '../../draft/joined/target-states.js';
import type { Drafter } from '../../draft/drafter.js';
import { attentionInputs } from '../../model/attention-inputs.js';
import type { CausalModel } from '../../model/causal-model.js';
import { KvCache } from '../../model/cache/kv-cache.js';
import type { MixedValues } from '../../runtime/program.js';
import type { SearchModels } from './search-programs.js';

export interface PromptState {
  /** Not yet in the caches: the token before a pass's first row. */
  readonly lastToken: number;
  readonly targetCache: KvCache;
  readonly draftCache: KvCache | undefined;
}

export async function readPromptState(
  models: SearchModels,
  promptIds: readonly number[],
): Promise<PromptState> {
  const { target, drafter } = models;
  const attention = drafter.graph?.attention;
  const empty: PromptState = {
    lastToken: promptIds[0]!,
    targetCache: target.createCache(),
    draftCache: attention === undefined ? undefined : new KvCache(attention.sizes, target.runtime),
  };
  await readOn(models, empty, promptIds);
  return { ...empty, lastToken: promptIds.at(-1)! };
}

export function releaseState({ targetCache, draftCache }: PromptState): void {
  targetCache.release();
  draftCache?.release();
}

/** With more tokens read, in caches of its own, or in those of an earlier extension. */
export async function extendState(
  models: SearchModels,
  state: PromptState,
  tokens: readonly number[],
  earlier?: PromptState,
): Promise<PromptState> {
  const extended = {
    targetCache: earlier?.targetCache ?? state.targetCache.fork(),
    draftCache: earlier?.draftCache ?? state.draftCache?.fork(),
  };
  extended.targetCache.truncate(state.targetCache.length);
  if (state.draftCache !== undefined) extended.draftCache?.truncate(state.draftCache.length);
  await readOn(models, { ...state, ...extended }, [state.lastToken, ...tokens]);
  return { ...extended, lastToken: tokens.at(-1) ?? state.lastToken };
}

async function readOn(
  { target, drafter }: SearchModels,
  state: PromptState,
  tokens: readonly number[],
): Promise<void> {
  if (tokens.length < 2) return;
  const reader = drafter.lead ?? drafter;
  let read = 0;
  await prefill(target, state.targetCache, tokens.slice(0, -1), {
    want: outputsFor(reader),
    taps: reader.taps,
    async onChunk(chunk, result) {
      read += chunk.length;
      const states = statesOf(target.runtime, reader, result);
      const verified = { tokens: chunk, states, next: tokens[read]! };
      if (state.draftCache !== undefined)
        await drafter.graph!.attention!.readPrefix(verified, state.draftCache);
      states?.free();
    },
  });
}

/** After the first `pastLength` rows of the caches. */
export function passInputs(
  state: PromptState,
  { target, drafter }: { readonly target: CausalModel; readonly drafter: Drafter | undefined },
  rows: number,
  pastLength = state.targetCache.pastLength,
): MixedValues {
  const shape = { count: rows, pastLength };
  const { window, windowEnd } = drafter?.graph?.attention ?? {};
  requireNoWindow(shape, target.configuration.slidingWindow, window, windowEnd);
  const inputs: Record<string, MixedValues[string]> = { ...attentionInputs(shape, target.rotary) };
  const addViews = (name: string, cache: KvCache): void => {
    for (let slot = 0; slot < 2 * cache.sizes.layerCount; slot++)
      inputs[`${name}${slot}`] = cache.view(slot, pastLength);
  };
  addViews('past', state.targetCache);
  const attention = drafter?.graph?.attention;
  if (attention !== undefined && state.draftCache !== undefined) {
    const { cosine, sine } = attentionInputs(shape, attention.rotary);
    inputs['draft.cosine'] = cosine!;
    inputs['draft.sine'] = sine!;
    addViews('draftPast', state.draftCache);
  }
  return inputs;
}

/** Target and drafter share one mask without a window. */
function requireNoWindow(
  { count, pastLength }: { readonly count: number; readonly pastLength: number },
  ...windows: readonly (number | undefined)[]
): void {
  const reach = Math.min(...windows.map((window) => window ?? Infinity));
  const needed = pastLength - 1 + count; // without the cache's dummy
  if (needed <= reach) return;
  throw new MistletoeError(
    'context',
    `The audit needs ${needed} positions; target and drafter see ${reach} at a time, through a sliding window.`,
    { hint: `Shorten prompt, suffix and answer to ${reach} tokens together.` },
  );
}
