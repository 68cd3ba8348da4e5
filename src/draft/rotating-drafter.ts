/**
 * Several drafters for one request, one active at a time. A suffix that makes drafts fail is fitted to one drafter;
 * another one, or a lookup without weights, may not be affected. All observe verified tokens, so each can take over;
 * it then reads what it missed. Made per request; `use` selects the drafter.
 */
import { MistletoeError } from '../core/errors.js';
import type { Drafter, DraftSession, VerifiedTokens } from './drafter.js';

export interface RotatingDrafter extends Drafter {
  use(place: number): void;
}

/** One drafter or more. Those that read states must read the same ones. */
export function rotateDrafters(drafters: readonly Drafter[]): RotatingDrafter {
  const [first, ...others] = drafters as [Drafter, ...Drafter[]];
  const reader = drafters.find(({ reads }) => reads !== 'tokens') ?? first;
  const describe = ({ reads, taps }: Drafter): string =>
    reads === 'taps' ? `layers ${taps.join(', ')}` : reads;
  for (const other of others) {
    if (other.reads === 'tokens' || describe(other) === describe(reader)) continue;
    throw new MistletoeError(
      'drafter',
      `${other.name} reads ${describe(other)} of the target and ${reader.name} reads ${describe(reader)}; drafters that take turns read the same, or tokens alone.`,
      { hint: 'Put a draft model or ngram beside one of them.' },
    );
  }
  let current = 0;
  return {
    system: first.system,
    name: drafters.map(({ name }) => name).join(' + '),
    reads: reader.reads,
    taps: reader.taps,
    maximumDepth: Math.min(...drafters.map(({ maximumDepth }) => maximumDepth)),
    vocabularySize: Math.min(...drafters.map(({ vocabularySize }) => vocabularySize)),
    isChainOnly: drafters.every(({ isChainOnly = false }) => isChainOnly),
    parameterCount: first.parameterCount,
    graph: undefined,
    use(place) {
      current = place;
    },
    async prepare(drafts) {
      await Promise.all(drafters.map((drafter) => drafter.prepare(drafts)));
    },
    startSession(scheduler) {
      const sessions = drafters.map((drafter) => drafter.startSession(scheduler));
      return Object.assign(
        forwardSession(() => sessions[current]!),
        {
          observe(verified: VerifiedTokens) {
            for (const [place, session] of sessions.entries())
              session.observe(
                drafters[place]!.reads === 'tokens' ? { ...verified, states: undefined } : verified,
              );
          },
          close() {
            for (const session of sessions) session.close();
          },
        },
      );
    },
  };
}

/** A session that passes every call on to the current one. */
export function forwardSession(current: () => DraftSession): DraftSession {
  return {
    get isDeterministic() {
      return current().isDeterministic === true;
    },
    get room() {
      return current().room;
    },
    get siblings() {
      return current().siblings;
    },
    lookUp: (length) => current().lookUp?.(length) ?? { tokens: [], survival: [] },
    lookUpInstead: (length) => current().lookUpInstead?.(length) ?? [],
    observe(verified) {
      current().observe(verified);
    },
    expand: (draft, nodes, want) => current().expand(draft, nodes, want),
    catchUp: async () => {
      await current().catchUp?.();
    },
    get draftChain() {
      return current().draftChain?.bind(current());
    },
    get drawChain() {
      return current().drawChain?.bind(current());
    },
    get draftTree() {
      return current().draftTree?.bind(current());
    },
    close() {
      current().close();
    },
  };
}
