/** A drafter whose tokens are always replaced by others. Chains only. */
import { createRandom } from '../../src/core/random.js';
import type { Drafter } from '../../src/draft/drafter.js';

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
        isDeterministic: session.isDeterministic === true,
        observe: (verified) => {
          session.observe(verified);
        },
        catchUp: async () => {
          await session.catchUp?.();
        },
        expand: (draft, nodes, want) => session.expand(draft, nodes, want),
        draftChain: async (length) => (await session.draftChain!(length)).map(replace),
        close: () => {
          session.close();
        },
      };
    },
  };
}
