/**
 * Several drafters that propose into one tree, written `ngram+eagle3`. Where they agree the target reads one row; each
 * keeps its trials, in the order in which they are written. A lookup costs next to nothing and depends on the text alone,
 * so a suffix that misleads a drafter leaves the lookup as it is.
 */
import { maxDraftNodes } from '../../core/limits.js';
import type { Runtime } from '../../runtime/program.js';
import { type Drafter, type DraftSession, noSuggestion, type Suggestion } from '../drafter.js';
import { fitPolicy, levelsOf } from '../tree/policy.js';
import { pickStates, type StateReader } from './target-states.js';
import { bringLaws, chainTree, isDrawn, joinTrees, type TokenTree } from '../tree/token-tree.js';

/** Less likely tokens of a lookup are not worth a row of the target. */
const minSurvival = 0.3;

export function likelyTokens({ tokens, survival }: Suggestion): readonly number[] {
  return tokens.filter((_, level) => survival[level]! >= minSurvival);
}

/** Audits follow the gradient of the first drafter with weights, and measure all. */
export function joinDrafters(members: readonly Drafter[], runtime: Runtime): Drafter {
  const weighty = members.filter(({ parameterCount }) => parameterCount > 0);
  const lead = weighty[0] ?? members[0]!;
  const reader = joinReaders(members);
  const minOf = (read: (drafter: Drafter) => number): number => Math.min(...members.map(read));
  return {
    ...lead,
    name: members.map(({ name }) => name).join('+'),
    ...reader,
    lead,
    maximumDepth: minOf(({ maximumDepth }) => maximumDepth),
    vocabularySize: minOf(({ vocabularySize }) => vocabularySize),
    isChainOnly: members.every(({ isChainOnly = false }) => isChainOnly),
    parameterCount: weighty.reduce((sum, { parameterCount }) => sum + parameterCount, 0),
    lookups: members.filter((member) => !weighty.includes(member)),
    async prepare(drafts) {
      await Promise.all(members.map((member) => member.prepare(drafts)));
    },
    startSession(scheduler) {
      const sessions = members.map((member) => member.startSession(scheduler));
      return new JoinedSession(members, sessions, reader, runtime);
    },
  };
}

/** The states that all members read together. */
function joinReaders(members: readonly Drafter[]): StateReader {
  const has = (reads: Drafter['reads']): boolean =>
    members.some((member) => member.reads === reads || (member.reads === 'both' && reads !== 'tokens'));
  const reads = has('features') ? (has('taps') ? 'both' : 'features') : has('taps') ? 'taps' : 'tokens';
  const taps = [...new Set(members.flatMap((member) => member.taps))];
  return { reads, taps: taps.sort((left, right) => left - right) };
}

const countNodes = (trees: readonly TokenTree[]): number =>
  trees.reduce((sum, { tokens }) => sum + tokens.length - 1, 0);

class JoinedSession implements DraftSession {
  constructor(
    private readonly members: readonly Drafter[],
    private readonly sessions: readonly DraftSession[],
    private readonly reader: StateReader,
    private readonly runtime: Runtime,
  ) {}

  get room(): number {
    return Math.max(...this.sessions.map(({ room }) => room));
  }

  observe(...[verified]: Parameters<DraftSession['observe']>): void {
    const { states } = verified;
    this.sessions.forEach((session, index) => {
      const member = this.members[index]!;
      const isNone = states === undefined || member.reads === 'tokens';
      const isAll = member.reads === this.reader.reads && member.taps.join() === this.reader.taps.join();
      if (isNone || isAll) {
        session.observe({ ...verified, states: isNone ? undefined : states });
        return;
      }
      const own = pickStates(this.runtime, states, this.reader, member);
      session.observe({ ...verified, states: own });
      own.free();
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
      const left = maxDraftNodes - 1 - countNodes(trees);
      if (left < 1) break;
      if (this.members[index]!.parameterCount === 0) {
        const suggestion = session.suggest(length);
        trees.push(chainTree(root, source === 'lookup' ? suggestion.tokens : likelyTokens(suggestion)));
      } else if (source !== 'lookup' && session.room > 0) {
        // A pass over a chain may start early only if the chain is the whole tree.
        const isFirst = trees.every(({ tokens }) => tokens.length === 1) && this.isLast(index);
        const own = {
          ...{ ...ask, policy: fitPolicy(policy, left) },
          depthLimit: Math.min(depthLimit, session.room),
        };
        trees.push(await session.propose({ ...own, onTokens: isFirst ? ask.onTokens : undefined }));
      }
    }
    // A device judges one law per node, so laws of several drafters are judged on the host.
    const joinable = trees.filter(isDrawn).length > 1 ? await Promise.all(trees.map(bringLaws)) : trees;
    return joinTrees(joinable.length === 0 ? [chainTree(root, [])] : joinable);
  }

  private isLast(index: number): boolean {
    return index === this.sessions.length - 1;
  }

  close(): void {
    for (const session of this.sessions) session.close();
  }
}
