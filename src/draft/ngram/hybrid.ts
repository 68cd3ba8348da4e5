/**
 * A lookup in the text beside another drafter, written `ngram+eagle3`. The one that should bring more
 * tokens for its cost drafts a chain; a tree holds both. A lookup costs nothing and depends on the text alone, so a suffix
 * that misleads the drafter leaves it as it is, and takes over from a drafter that fails.
 */
import type { Drafter, VerifiedTokens } from '../drafter.js';
import { forwardSession } from '../rotating-drafter.js';
import { observeText, parseHybridLookup } from './ngram.js';
import { TextLookup } from './text-lookup.js';

/** Audits follow the gradient of the drafter and measure both. */
export function addLookup(lookup: string, drafter: Drafter): Drafter {
  const lengths = parseHybridLookup(lookup);
  return {
    ...drafter,
    name: `${lookup}+${drafter.name}`,
    lookup: lengths,
    startSession(scheduler) {
      const inner = drafter.startSession(scheduler);
      const text = new TextLookup(lengths);
      /** Levels that were left to the drafter; 0 if it wasn't asked. */
      let drafted = 0;
      return Object.assign(
        forwardSession(() => inner),
        {
          lookUp: (length: number) => text.lookUp(length),
          lookUpInstead(length: number) {
            const tokens = text.chooseTokens(length);
            drafted = tokens.length === 0 ? length : 0;
            return tokens;
          },
          observe(verified: VerifiedTokens) {
            const accepted = verified.tokens.length - 1;
            text.learnDrafted(Array.from({ length: drafted }, (_, level) => Number(level < accepted)));
            drafted = 0;
            observeText(text, verified);
            inner.observe(verified);
          },
        },
      );
    },
  };
}
