/**
 * A draft model with another tokenizer than the target's. It reads the text in tokens of its own. Both ways to draft keep
 * the target's distribution:
 * - chains at temperature 0: its text is encoded again in the target's tokens. Such a draft is certain, so verification
 *   compares tokens.
 * - otherwise: it drafts from the tokens that both vocabularies have, with its probabilities renormalized over them (TLI,
 *   arXiv 2502.05202). These are the probabilities that the draft was drawn from, which is what verification needs.
 */
import type { Drafter, DraftSession, Suggestion, VerifiedTokens } from '../drafter.js';
import { noSuggestion } from '../drafter.js';
import type { AttentionDrafter, AttentionSession } from '../programs/attention-drafter.js';
import { type Ask, type Expand, growTree, type LevelPrograms } from '../tree/grow-tree.js';
import { chainTree, type TokenTree } from '../tree/token-tree.js';
import { rankRow } from '../programs/scores.js';
import { type DraftScores } from '../tree/draft-scores.js';
import { DraftText, encodeDraft } from './draft-text.js';
import type { SharedTokens, VocabularyPair } from './vocabulary-match.js';

export interface OtherVocabulary extends VocabularyPair {
  /** What the draft model reads before every text. */
  readonly start: readonly number[];
}

/** `inner`: the draft model with its own vocabulary. */
export function translateDrafter(inner: AttentionDrafter, vocabulary: OtherVocabulary): Drafter {
  const { system, name, parameterCount } = inner;
  return {
    ...{ system, name: `${name} (another vocabulary)`, parameterCount },
    reads: 'tokens',
    taps: [],
    maximumDepth: Infinity,
    vocabularySize: vocabulary.shared.count,
    cacheSizes: inner.graph?.attention?.sizes,
    // One-hot rows of the target's tokens are no rows of the draft model's.
    graph: undefined,
    prepare: ({ chains = [] } = {}) => inner.prepare({ chains: chains.map(ownLength) }),
    startSession: (scheduler) => new TranslatedSession(inner.startSession(scheduler), vocabulary),
  };
}

/** One more, because the last token of the target may be unfinished. */
const ownLength = (length: number): number => length + 1;

class TranslatedSession implements DraftSession {
  readonly levels: LevelPrograms = {
    expand: (...given) => this.expand(...given),
    chain: (ask, length) => (ask.sampling.temperature > 0 ? undefined : this.draftChain(ask, length)),
  };
  private readonly text: DraftText;
  private readonly seen: number[] = [];
  private read: readonly number[] = [];

  constructor(
    private readonly inner: AttentionSession,
    private readonly vocabulary: OtherVocabulary,
  ) {
    const { target, draft, start } = vocabulary;
    this.text = new DraftText(target, draft, start);
  }

  get room(): number {
    return this.inner.room;
  }

  observe({ tokens, next }: VerifiedTokens): void {
    // The first token is the previous root, which is in the text already.
    const added = [...tokens.subarray(this.seen.length === 0 ? 0 : 1), next];
    for (const token of added) this.text.push(token);
    this.seen.push(...added);
  }

  async catchUp(): Promise<void> {
    await this.readText();
    if (this.room > 0) await this.inner.catchUp();
  }

  propose(ask: Ask): Promise<TokenTree> {
    return growTree(this.levels, ask);
  }

  suggest(): Suggestion {
    return noSuggestion;
  }

  private async draftChain(ask: Ask, length: number): Promise<TokenTree> {
    const { target, draft, shared } = this.vocabulary;
    const missing = await this.readText();
    if (this.room < 1) return chainTree(ask.root, []);
    const policy = { kind: 'chain', length: ownLength(length) } as const;
    const inner = { ...ask, policy, depthLimit: this.room, onPasses: undefined, onTokens: undefined };
    const chain = Array.from((await this.inner.propose(inner)).tokens.subarray(1));
    const special = chain.findIndex((token) => draft.tokenizer.isSpecial(token));
    const words = special < 0 ? chain : chain.slice(0, special);
    const drafted = words.map((token) => draft.of(token)).join('');
    if (!drafted.startsWith(missing)) return chainTree(ask.root, []);
    const end = special < 0 ? -1 : shared.targetTokens[chain[special]!]!;
    const tokens = await encodeDraft(target, this.seen, drafted.slice(missing.length), end >= 0);
    const drafts = [...tokens, ...(end < 0 ? [] : [end])];
    return chainTree(ask.root, drafts.slice(0, Math.min(length, ask.depthLimit)));
  }

  private async expand(...[draft, nodes]: Parameters<Expand>): Promise<DraftScores> {
    const { targetTokens, draftTokens } = this.vocabulary.shared;
    if (draft.depths[nodes[0]!] === 0) await this.readText();
    if (this.room < 1)
      return shareScores(() => new Float32Array(targetTokens.length), this.vocabulary.shared);
    const tokens = draft.tokens.map((token) => draftTokens[token]!);
    const scores = await this.inner.expand({ ...draft, tokens }, nodes, 'logits');
    return shareScores((row) => scores.logits(row), this.vocabulary.shared);
  }

  close(): void {
    this.inner.close();
  }

  /** Returns the bytes at the end of the text that the draft model cannot read. */
  private async readText(): Promise<string> {
    const { tokens, missing } = await this.text.encode();
    const differing = tokens.findIndex((token, index) => this.read[index] !== token);
    // The newest token is read again if nothing is new: drafts start with its row.
    const kept = differing < 0 ? tokens.length - 1 : differing;
    this.inner.replaceText(kept, tokens.slice(kept));
    this.read = tokens;
    return missing;
  }
}

/** Over the target's tokens; -Infinity for those that only the target has. */
function shareScores(
  ownLogits: (row: number) => Float32Array, // [draft vocabulary]
  { targetTokens, draftTokens }: SharedTokens,
): DraftScores {
  const logits = (row: number): Float32Array => {
    const whole = new Float32Array(draftTokens.length).fill(-Infinity);
    ownLogits(row).forEach((logit, token) => {
      if (targetTokens[token]! >= 0) whole[targetTokens[token]!] = logit;
    });
    return whole;
  };
  return { logits, top: (row, count) => rankRow(logits(row), count, (token) => token) };
}
