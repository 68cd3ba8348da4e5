/**
 * Several drafters that propose into one tree, written `ngram+eagle3`. Where they agree the target reads one row; each
 * keeps its trials, in the order in which they are written. A lookup costs next to nothing and depends on the text alone,
 * so a suffix that misleads a drafter leaves the lookup as it is.
 */
import { MistletoeError } from '../../core/errors.js';
import { type Drafter, type DraftSession, noSuggestion, type Suggestion } from '../drafter.js';
import { levelsOf } from '../tree/policy.js';
import { chainTree, joinTrees, type TokenTree } from '../tree/token-tree.js';

/** Less likely tokens of a lookup are not worth a row of the target. */
const minSurvival = 0.3;

export function likelyTokens({ tokens, survival }: Suggestion): readonly number[] {
  return tokens.filter((_, level) => survival[level]! >= minSurvival);
}

/** Audits follow the gradient of the first drafter with weights, and measure all. */
export function joinDrafters(members: readonly Drafter[]): Drafter {
  const weighty = members.filter(({ parameterCount }) => parameterCount > 0);
  const lead = weighty[0] ?? members[0]!;
  const reader = findReader(members);
  const minOf = (read: (drafter: Drafter) => number): number => Math.min(...members.map(read));
  return {
    ...lead,
    name: members.map(({ name }) => name).join('+'),
    reads: reader.reads,
    taps: reader.taps,
    maximumDepth: minOf(({ maximumDepth }) => maximumDepth),
    vocabularySize: minOf(({ vocabularySize }) => vocabularySize),
    isChainOnly: members.every(({ isChainOnly = false }) => isChainOnly),
    parameterCount: weighty.reduce((sum, { parameterCount }) => sum + parameterCount, 0),
    lookups: members.filter((member) => !weighty.includes(member)),
    async prepare(drafts) {
      await Promise.all(members.map((member) => member.prepare(drafts)));
    },
    startSession(scheduler) {
      return new JoinedSession(
        members,
        members.map((member) => member.startSession(scheduler)),
      );
    },
  };
}

/** All members read the same states of the target, or tokens alone. */
function findReader(members: readonly Drafter[]): Drafter {
  const readers = members.filter(({ reads }) => reads !== 'tokens');
  const [reader = members[0]!] = readers;
  const other = readers.find(
    ({ reads, taps }) => reads !== reader.reads || taps.join() !== reader.taps.join(),
  );
  if (other === undefined) return reader;
  throw new MistletoeError(
    'drafter',
    `${reader.name} and ${other.name} read different states of the target, so they cannot draft together.`,
    { hint: 'Join one of them with a draft model or with ngram.' },
  );
}

class JoinedSession implements DraftSession {
  constructor(
    private readonly members: readonly Drafter[],
    private readonly sessions: readonly DraftSession[],
  ) {}

  get room(): number {
    return Math.max(...this.sessions.map(({ room }) => room));
  }

  observe(...[verified]: Parameters<DraftSession['observe']>): void {
    this.sessions.forEach((session, index) => {
      const readsTokens = this.members[index]!.reads === 'tokens';
      session.observe(readsTokens ? { ...verified, states: undefined } : verified);
    });
  }

  async catchUp(): Promise<void> {
    for (const session of this.sessions) if (session.room > 0) await session.catchUp();
  }

  suggest(length: number): Suggestion {
    for (const session of this.sessions) {
      const suggestion = session.suggest(length);
      if (suggestion.tokens.length > 0) return suggestion;
    }
    return noSuggestion;
  }

  async propose(...[ask]: Parameters<DraftSession['propose']>): Promise<TokenTree> {
    const { root, policy, depthLimit, source } = ask;
    const length = Math.min(levelsOf(policy), depthLimit);
    const trees: TokenTree[] = [];
    for (const [index, session] of this.sessions.entries()) {
      if (this.members[index]!.parameterCount === 0) {
        const suggestion = session.suggest(length);
        trees.push(chainTree(root, source === 'lookup' ? suggestion.tokens : likelyTokens(suggestion)));
      } else if (source !== 'lookup' && session.room > 0) {
        // A pass over a chain may start early only if the chain is the whole tree.
        const isFirst = trees.every(({ tokens }) => tokens.length === 1) && this.isLast(index);
        const own = { ...ask, depthLimit: Math.min(depthLimit, session.room) };
        trees.push(await session.propose({ ...own, onTokens: isFirst ? ask.onTokens : undefined }));
      }
    }
    return joinTrees(trees.length === 0 ? [chainTree(root, [])] : trees);
  }

  private isLast(index: number): boolean {
    return index === this.sessions.length - 1;
  }

  close(): void {
    for (const session of this.sessions) session.close();
  }
}
