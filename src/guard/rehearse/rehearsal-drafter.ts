/** A drafter that fails as often as it is told to. The target rejects what is wrong, so answers stay as they are. */
import { MistletoeError } from '../../core/errors.js';
import type { Random } from '../../core/random.js';
import type { Drafter } from '../../draft/drafter.js';

export interface SpoiledDrafter extends Drafter {
  /** The share of draft tokens that are replaced by others; may be changed between steps. */
  spoiledShare: number;
}

/** Chains only, at temperature 0: there a replaced token is rejected, unless the drafter was wrong and the other is right. */
export function spoilDrafter(inner: Drafter, random: Random): SpoiledDrafter {
  const { system, name, reads, maximumDepth, vocabularySize, taps, parameterCount } = inner;
  const replace = (token: number): number =>
    (token + 1 + random.nextInteger(vocabularySize - 1)) % vocabularySize;
  const spoiled: SpoiledDrafter = {
    ...{ system, name, reads, maximumDepth, vocabularySize, taps, parameterCount },
    // What it drafts no longer follows from its weights.
    ...{ spoiledShare: 0, isChainOnly: true, graph: undefined },
    prepare: ({ chains = [] } = {}) => inner.prepare({ chains }),
    startSession(scheduler) {
      const session = inner.startSession(scheduler);
      if (session.draftChain === undefined) {
        session.close();
        throw new MistletoeError('usage', `${name} drafts no chains in one go, which a rehearsal needs.`, {
          hint: 'Rehearse with another drafter, for example eagle3 or ngram.',
        });
      }
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
        draftChain: async (length) => {
          const tokens = await session.draftChain!(length);
          return tokens.map((token) => (random.next() < spoiled.spoiledShare ? replace(token) : token));
        },
        close: () => {
          session.close();
        },
      };
    },
  };
  return spoiled;
}
