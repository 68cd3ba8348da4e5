/** A drafter whose tokens are always replaced by others. Chains only. */
import { createRandom } from '../../src/core/random.js';
import type { Drafter } from '../../src/draft/drafter.js';
import { chainTree } from '../../src/draft/tree/token-tree.js';

export function spoilDrafter(inner: Drafter): Drafter {
  const { system, name, reads, maximumDepth, vocabularySize, taps, parameterCount } = inner;
  const random = createRandom(1, 'spoiled');
  const replace = (token: number): number =>
    (token + 1 + random.nextInteger(vocabularySize - 1)) % vocabularySize;
  return {
    ...{ system, name, reads, maximumDepth, vocabularySize, taps, parameterCount },
    // What it drafts no longer follows from its weights.
    ...{ isChainOnly: true, graph: undefined },
    prepare: ({ chains = [] } = {}) => inner.prepare({ chains }),
    startSession(scheduler) {
      const session = inner.startSession(scheduler);
      return {
        get room() {
          return session.room;
        },
        observe: (verified) => {
          session.observe(verified);
        },
        catchUp: () => session.catchUp(),
        suggest: (length) => session.suggest(length),
        async propose(ask) {
          const { tokens } = await session.propose(ask);
          return chainTree(ask.root, Array.from(tokens.subarray(1), replace));
        },
        close: () => {
          session.close();
        },
      };
    },
  };
}
