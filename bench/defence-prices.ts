/** What steps of each kind take, for choosers that decide by cost: measured once, before anything else. */
import { readFileSync } from 'node:fs';
import { always } from '../src/decode/policies/policy-chooser.js';
import { decodeSpeculative } from '../src/decode/speculative.js';
import type { Target } from '../src/decode/target.js';
import { requestFor } from '../src/decode/target.js';
import type { Drafter } from '../src/draft/drafter.js';
import type { PriceList } from './defence-choosers.js';
import { never } from './defence-choosers.js';

const newTokens = 48;
const policies = [
  never,
  ...[1, 2, 3, 4].map((length) => always({ kind: 'chain', length })),
  always({ kind: 'dynamic', total: 8, depth: 2, topK: 2 }),
];

/** On usual requests, by turns. */
export async function measurePrices(
  target: Target,
  drafters: ReadonlyMap<string, Drafter>,
  texts: readonly string[],
): Promise<PriceList> {
  const verify: number[][] = [];
  const draft: Record<string, number[][]> = {};
  const tree: Record<string, { draft: number[]; verify: number[] }> = {};
  const promptMs: number[] = [];
  for (const [round, text] of [texts[0]!, ...texts].entries()) {
    const request = await requestFor(target, text, { maxNewTokens: newTokens });
    for (const [name, drafter] of drafters) {
      for (const policy of policies) {
        if (drafter.isChainOnly === true && (policy.trees ?? []).length > 0) continue;
        const { steps, prefillMs } = await decodeSpeculative(target.model, drafter, { ...request, policy });
        if (round === 0) continue; // the first scheduler compiles
        promptMs.push(prefillMs / request.promptIds.length);
        for (const { proposed, depth, draftMs, verifyMs } of steps.slice(1)) {
          if (depth < proposed) {
            const kept = (tree[name] ??= { draft: [], verify: [] });
            kept.draft.push(draftMs);
            kept.verify.push(verifyMs);
          } else {
            (verify[proposed] ??= []).push(verifyMs);
            ((draft[name] ??= [])[depth] ??= []).push(draftMs);
          }
        }
      }
    }
  }
  return {
    verify: listUsual(verify),
    draft: Object.fromEntries(Object.entries(draft).map(([name, lists]) => [name, listUsual(lists)])),
    tree: Object.fromEntries(
      Object.entries(tree).map(([name, kept]) => [
        name,
        { draft: usualOf(kept.draft), verify: usualOf(kept.verify) },
      ]),
    ),
    prompt: usualOf(promptMs),
  };
}

/** The lower quarter: what else the machine does makes steps longer, never shorter. */
function usualOf(values: readonly number[]): number {
  const sorted = [...values].sort((left, right) => left - right);
  return Math.round(1000 * sorted[Math.floor(sorted.length / 4)]!) / 1000;
}

const listUsual = (lists: readonly (readonly number[] | undefined)[]): number[] =>
  Array.from(lists, (list) => usualOf(list ?? [0]));

/** What an earlier run wrote down. */
export function readPrices(file: string): PriceList {
  return (JSON.parse(readFileSync(file, 'utf8')) as { readonly prices: PriceList }).prices;
}
