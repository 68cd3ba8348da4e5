/**
 * Accepted length along a given answer, from the acceptance of every draft token. A step with answer token i as root
 * accepts the following tokens up to the first failure; the target adds the next, the new root. With probabilities
 * the same walk gives expectations: `reached[i]` is the probability that token i is a root.
 */
import type { Drafter } from '../../draft/drafter.js';
import { type MatchLengths, LookupIndex } from '../../draft/ngram/lookup-index.js';
import { requireGraph } from '../../draft/reading/checks.js';
import type { StepCounts } from '../../measure/bootstrap.js';

/** [level][row] From answer token `row` as root. */
export type AcceptanceTable = readonly Float32Array[];

export function walkAnswer(table: AcceptanceTable, answerLength: number): StepCounts {
  const reached = new Float64Array(Math.max(answerLength, 1));
  reached[0] = 1;
  let steps = 0;
  let accepted = 0;
  for (let root = 0; root < answerLength - 1; root++) {
    const share = reached[root]!;
    if (share === 0) continue;
    steps += share;
    let survival = share;
    for (let level = 0; survival > 0; level++) {
      const next = root + 1 + level;
      const isOpen = level < table.length && next < answerLength;
      const kept = isOpen ? survival * table[level]![root]! : 0;
      if (next < answerLength) reached[next]! += survival - kept;
      accepted += kept;
      survival = kept;
    }
  }
  return { steps, accepted };
}

/** The table of a drafter with a lookup in front of it: where the lookup finds something, that is drafted. */
export function applyLookups(
  table: AcceptanceTable,
  lengths: MatchLengths,
  promptIds: readonly number[],
  answerIds: readonly number[],
): AcceptanceTable {
  const index = new LookupIndex(lengths);
  for (const token of promptIds) index.push(token);
  const levels = table.map((row) => row.slice());
  for (let root = 0; root < answerIds.length - 1; root++) {
    index.push(answerIds[root]!);
    index.findContinuation(levels.length).forEach((token, level) => {
      if (root + 1 + level < answerIds.length)
        levels[level]![root] = Number(token === answerIds[root + 1 + level]);
    });
  }
  return levels;
}

/**
 * Drafts of a text-only drafter along an answer need no target pass. A draft is accepted if it is the answer's token;
 * above temperature 0 too, because a certain proposal is accepted with min(1, 1 / p) = 1.
 */
/** `levels`: chain length. */
export async function countDraftsAlong(
  drafter: Drafter,
  promptIds: readonly number[],
  answerIds: readonly number[],
  levels: number,
): Promise<StepCounts> {
  const session = drafter.startSession();
  const read = (tokens: readonly number[], next: number): void => {
    session.observe({ tokens: Int32Array.from(tokens), states: undefined, next });
  };
  let root = 0; // its place in the answer
  let [steps, accepted] = [0, 0];
  try {
    read(promptIds, answerIds[0]!);
    while (root < answerIds.length - 1) {
      const drafted = (await session.draftChain?.(levels)) ?? requireChain(drafter);
      const ahead = answerIds.slice(root + 1, root + 1 + drafted.length);
      const wrong = ahead.findIndex((token, level) => token !== drafted[level]);
      const kept = wrong < 0 ? ahead.length : wrong;
      const next = root + kept + 1;
      read(answerIds.slice(root, next), answerIds[next] ?? answerIds.at(-1)!);
      root = next;
      steps += 1;
      accepted += kept;
    }
  } finally {
    session.close();
  }
  return { steps, accepted };
}

function requireChain(drafter: Drafter): never {
  requireGraph(drafter);
  throw new Error(`${drafter.name} drafts no chains.`);
}
