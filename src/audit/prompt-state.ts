/** What target and drafter keep of a prompt up to the place of the suffix: computed once, shared by every candidate. */
import { prefill } from '../decode/prefill.js';
import type { Drafter, VerifiedTokens } from '../draft/drafter.js';
import { attentionInputs } from '../model/attention-inputs.js';
import type { CausalModel } from '../model/causal-model.js';
import type { KvCache } from '../model/kv-cache.js';
import type { NamedValues } from '../runtime/program.js';

export interface PromptState {
  /** The last prompt token before the suffix; the caches hold everything before it. */
  readonly lastToken: number;
  readonly pastLength: number;
  readonly targetCache: KvCache;
  readonly draftCache: KvCache | undefined;
}

export async function readPromptState(
  target: CausalModel,
  drafter: Drafter | undefined,
  promptIds: readonly number[],
): Promise<PromptState> {
  const before = promptIds.slice(0, -1);
  const lastToken = promptIds.at(-1)!;
  const targetCache = target.createCache();
  const attention = drafter?.graph.attention;
  const reads = drafter === undefined || drafter.reads === 'tokens' ? undefined : drafter.reads;
  const chunks: VerifiedTokens[] = [];
  if (before.length > 0) {
    await prefill(target, targetCache, before, {
      want: reads === undefined ? [] : [reads],
      onChunk(tokens, result) {
        chunks.push({
          tokens,
          states: reads === undefined ? new Float32Array() : result[reads]!,
          next: lastToken,
        });
      },
    });
  }
  const draftCache = await attention?.readPrefix(joinChunks(chunks, lastToken));
  return { lastToken, pastLength: targetCache.pastLength, targetCache, draftCache };
}

function joinChunks(chunks: readonly VerifiedTokens[], next: number): VerifiedTokens {
  const tokens = Int32Array.from(chunks.flatMap((chunk) => Array.from(chunk.tokens)));
  const states = new Float32Array(chunks.reduce((total, chunk) => total + chunk.states.length, 0));
  let offset = 0;
  for (const chunk of chunks) {
    states.set(chunk.states, offset);
    offset += chunk.states.length;
  }
  return { tokens, states, next };
}

/** The inputs of a forced pass that depend on the prompt alone: past, angles and mask. */
export function passInputs(
  state: PromptState,
  target: CausalModel,
  drafter: Drafter | undefined,
  rows: number,
): NamedValues {
  const shape = { count: rows, pastLength: state.pastLength };
  const inputs: Record<string, NamedValues[string]> = { ...attentionInputs(shape, target.rotary) };
  addViews(inputs, 'past', state.targetCache);
  const attention = drafter?.graph.attention;
  if (attention !== undefined && state.draftCache !== undefined) {
    const { cosine, sine } = attentionInputs(shape, attention.rotary);
    inputs['draft.cosine'] = cosine!;
    inputs['draft.sine'] = sine!;
    addViews(inputs, 'draftPast', state.draftCache);
  }
  return inputs;
}

function addViews(inputs: Record<string, NamedValues[string]>, name: string, cache: KvCache): void {
  for (let slot = 0; slot < 2 * cache.sizes.layerCount; slot++) inputs[`${name}${slot}`] = cache.view(slot);
}
