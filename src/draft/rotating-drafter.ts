/**
 * Several drafters for one request, one active at a time. A suffix that makes drafts fail is fitted to one drafter;
 * another one, or a lookup without weights, may not be affected. All observe verified tokens, so each can take over;
 * it then reads what it missed. Made per request; `use` selects the drafter.
 */
import { MistletoeError } from '../core/errors.js';
import type { Drafter, DraftSession } from './drafter.js';

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
    startSession: (scheduler) =>
      rotateSessions(
        drafters.map((drafter) => ({ reads: drafter.reads, session: drafter.startSession(scheduler) })),
        () => current,
      ),
  };
}

function rotateSessions(
  members: readonly { readonly reads: Drafter['reads']; readonly session: DraftSession }[],
  place: () => number,
): DraftSession {
  const current = (): DraftSession => members[place()]!.session;
  const rotating: DraftSession = {
    get isDeterministic() {
      return current().isDeterministic === true;
    },
    get room() {
      return current().room;
    },
    lookUp: (length) => current().lookUp?.(length) ?? [],
    observe(verified) {
      for (const { reads, session } of members)
        session.observe(reads === 'tokens' ? { ...verified, states: undefined } : verified);
    },
    expand: (draft, nodes, want) => current().expand(draft, nodes, want),
    get siblings() {
      return current().siblings;
    },
    catchUp: async () => {
      await current().catchUp?.();
    },
    close() {
      for (const { session } of members) session.close();
    },
  };
  // If one lacks the program, all are expanded level by level, with the same result.
  if (members.every(({ session }) => session.draftChain !== undefined))
    rotating.draftChain = (length) => current().draftChain!(length);
  if (members.every(({ session }) => session.drawChain !== undefined))
    rotating.drawChain = (uniforms, sampling) => current().drawChain!(uniforms, sampling);
  if (members.every(({ session }) => session.draftTree !== undefined))
    rotating.draftTree = (size) => current().draftTree!(size);
  return rotating;
}
