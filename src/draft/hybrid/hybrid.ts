/**
 * A lookup in the text in front of another drafter, written `ngram+eagle3`. If the last tokens occurred before, a chain is
 * what followed them then, and the drafter isn't asked; otherwise the drafter drafts. A tree holds both. A lookup costs
 * nothing and depends on the text alone, so a suffix that misleads the drafter leaves it as it is.
 */
import type { Drafter, DraftSession } from '../drafter.js';
import { LookupIndex, type MatchLengths } from '../ngram/lookup-index.js';
import { formatNgram, observeText, parseNgram } from '../ngram/ngram.js';

/** Longer than those of a lookup alone: a short match is less reliable than a drafter. */
const defaults: MatchLengths = { min: 3, max: 8 };

export interface HybridSource {
  /** For example `ngram:3,8`. */
  readonly lookup: string;
  /** The drafter behind it, as a user writes it: a bundled name, a folder, or a name on the hub. */
  readonly behind: string;
}

/** Undefined for a drafter alone. A folder whose name begins with `ngram+` is written `./ngram+x`. */
export function parseHybrid(source: string): HybridSource | undefined {
  const [, lookup, behind] = /^(ngram(?::[^+]*)?)\+(.+)$/s.exec(source) ?? [];
  if (lookup === undefined || behind === undefined) return undefined;
  return { lookup: formatNgram(parseNgram(lookup, defaults)), behind };
}

/** The same lookup in front of a drafter that `find` found. */
export const withLookup = (lookup: string, behind: string): string => `${lookup}+${behind}`;

/** The drafter with a lookup in front of it. Audits follow the gradient of the drafter and measure both. */
export function addLookup(lookup: string, drafter: Drafter): Drafter {
  const lengths = parseNgram(lookup, defaults);
  return {
    system: drafter.system,
    name: `${lookup}+${drafter.name}`,
    reads: drafter.reads,
    taps: drafter.taps,
    maximumDepth: drafter.maximumDepth,
    vocabularySize: drafter.vocabularySize,
    isChainOnly: drafter.isChainOnly ?? false,
    parameterCount: drafter.parameterCount,
    graph: drafter.graph,
    lookup: lengths,
    prepare: (drafts) => drafter.prepare(drafts),
    startSession: (scheduler) => addLookupSession(lengths, drafter.startSession(scheduler)),
  };
}

function addLookupSession(lengths: MatchLengths, inner: DraftSession): DraftSession {
  const index = new LookupIndex(lengths);
  return {
    lookUp: (length) => index.findContinuation(length),
    observe(verified) {
      observeText(index, verified);
      inner.observe(verified);
    },
    get room() {
      return inner.room;
    },
    get isDeterministic() {
      return inner.isDeterministic === true;
    },
    get siblings() {
      return inner.siblings;
    },
    expand: (draft, nodes, want) => inner.expand(draft, nodes, want),
    catchUp: async () => {
      await inner.catchUp?.();
    },
    draftChain: inner.draftChain?.bind(inner),
    drawChain: inner.drawChain?.bind(inner),
    draftTree: inner.draftTree?.bind(inner),
    close: () => {
      inner.close();
    },
  };
}
