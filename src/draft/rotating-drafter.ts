/**
 * Several drafters for one request, of which one drafts at a time. A suffix that makes drafts fail is fitted to one drafter;
 * another one, or a look-up that has no weights at all, does not know it. All of them are told what became verified, so each
 * can take over at any step; one that did not draft for a while reads what it missed when its turn comes, as behind plain
 * steps. Which one drafts is set from outside (`use`), so a rotating drafter belongs to one request and is made for it.
 */
import { MistletoeError } from '../core/errors.js';
import type { Drafter, DraftSession } from './drafter.js';

export interface RotatingDrafter extends Drafter {
  /** The place in the list of the drafter that drafts from now on. */
  use(place: number): void;
}

/** What those need of the target that need more than tokens, and they have to need the same; of anything else the first counts. */
export function rotateDrafters(drafters: readonly Drafter[]): RotatingDrafter {
  const [first, ...others] = drafters;
  if (first === undefined) {
    throw new MistletoeError('usage', 'There is no drafter to rotate; one at least was expected.');
  }
  const reader = drafters.find(({ reads }) => reads !== 'tokens') ?? first;
  for (const other of others) checkFits(reader, other);
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
      if (drafters[place] === undefined) {
        throw new MistletoeError('usage', `There is no drafter ${place} of ${drafters.length}.`);
      }
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
  // Where one of them has no such program, all are expanded level by level, which gives the same.
  if (members.every(({ session }) => session.draftChain !== undefined))
    rotating.draftChain = (length) => current().draftChain!(length);
  if (members.every(({ session }) => session.drawChain !== undefined))
    rotating.drawChain = (uniforms, sampling) => current().drawChain!(uniforms, sampling);
  if (members.every(({ session }) => session.draftTree !== undefined))
    rotating.draftTree = (size) => current().draftTree!(size);
  return rotating;
}

function checkFits(reader: Drafter, other: Drafter): void {
  const readsSame = other.reads === reader.reads && other.taps.join() === reader.taps.join();
  if (readsSame || other.reads === 'tokens') return;
  throw new MistletoeError(
    'drafter',
    `${other.name} reads ${describeReading(other)} of the target and ${reader.name} reads ${describeReading(reader)}; drafters that take turns read the same, or tokens alone.`,
    { hint: 'Put a draft model or ngram beside one of them.' },
  );
}

const describeReading = ({ reads, taps }: Drafter): string =>
  reads === 'taps' ? `layers ${taps.join(', ')}` : reads;
