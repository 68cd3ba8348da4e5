/**
 * The drafter interface. A drafter observes the tokens that the target has verified, proposes trees of tokens that may
 * follow them (tree/grow-tree.ts), and gives teacher-forced logits for gradients and training.
 */
import type { Dimension } from '../graph/dimension.js';
import type { Tensor } from '../graph/tensor.js';
import type { WeightStore } from '../runtime/weights.js';
import type { AttentionContext, KeyValueRows } from '../model/decoder.js';
import type { CacheSizes } from '../model/cache/cache-pool.js';
import type { KvCache } from '../model/cache/kv-cache.js';
import type { PassScheduler } from '../model/lanes/lane-program.js';
import type { RotaryTable } from '../model/rotary/rotary.js';
import type { Ask, TreeSize } from './tree/grow-tree.js';
import type { TokenTree } from './tree/token-tree.js';
import type { RowBuffer } from '../runtime/row-buffer.js';

export interface Drafter {
  readonly system: string;
  readonly name: string;
  /** What it reads of the target besides tokens. */
  readonly reads: 'tokens' | 'features' | 'taps' | 'both';
  readonly maximumDepth: number;
  readonly vocabularySize: number;
  readonly isChainOnly?: boolean | undefined;
  /** Layers whose input residual stream is tapped. */
  readonly taps: readonly number[];
  /** Without weights borrowed from the target. */
  readonly parameterCount: number;
  /** Of its keys and values, if it has no graph that says so. */
  readonly cacheSizes?: CacheSizes | undefined;
  /** Of joined drafters, the one that has the graph. */
  readonly lead?: Drafter | undefined;
  /** Lookups that propose beside it; their sessions suggest tokens before a policy decides on more. */
  readonly lookups?: readonly Drafter[] | undefined;
  prepare(drafts?: PreparedDrafts): Promise<void>;
  /** `scheduler` joins its passes with those of other sequences. */
  startSession(scheduler?: PassScheduler): DraftSession;
  /** For gradients and for scoring many candidates; undefined if there is none. */
  readonly graph: DraftGraph | undefined;
}

/** Tokens that cost next to nothing to propose; empty where nothing was found. */
export interface Suggestion {
  readonly tokens: readonly number[];
  /** [level] How likely all tokens up to this one are right. */
  readonly survival: readonly number[];
}

export const noSuggestion: Suggestion = { tokens: [], survival: [] };

/** The drafts of one sequence. */
export interface DraftSession {
  /** Copies the states that it needs later. */
  observe(verified: VerifiedTokens): void;
  /** Levels that fit the drafter's own context. */
  readonly room: number;
  /** Reads everything except the newest row: the drafter's part of the prefill. */
  catchUp(): Promise<void>;
  propose(ask: Ask): Promise<TokenTree>;
  /** What the text itself suggests, at most `length` tokens, before a policy decides on more. */
  suggest(length: number): Suggestion;
  close(): void;
}

export interface VerifiedTokens {
  /** [row] Newly read by the target: the prompt, later the old root and the accepted path. */
  readonly tokens: Int32Array;
  /** [row, width] Features, taps, or features and taps; undefined for drafters that read tokens only. */
  readonly states: RowBuffer | undefined;
  /** The first token of the next chunk, or the root of the next draft. */
  readonly next: number;
}

export interface DraftGraph {
  readonly weights: readonly WeightStore[];
  /** Undefined if the vocabularies are equal. */
  readonly targetTokens: Int32Array | undefined; // [draft token]
  /** Undefined for heads without attention. */
  readonly attention: GraphAttention | undefined;
  /**
   * Teacher-forced logits: element d, row t belongs to token t + 2 + d, drafted from the target's state at t and
   * tokens t + 1 .. t + 1 + d. Rows before `firstRow` are not scored; rows beyond the end are cut.
   */
  draftLogits(teacher: TeacherForcing, depth: number): DraftedLogits;
}

export interface GraphAttention {
  readonly sizes: CacheSizes;
  readonly rotary: RotaryTable;
  /** Positions that a row sees, if fewer than the context. */
  readonly window?: number | undefined;
  /** Positions up to which its graph is exact, if a window is not in its masks. */
  readonly windowEnd?: number | undefined;
  /** Appends the rows of verified tokens to a cache, for draftLogits. */
  readPrefix(verified: VerifiedTokens, cache: KvCache): Promise<void>;
}

export interface TeacherForcing {
  readonly features: Tensor; // [batch, position, hidden]
  readonly taps: Tensor | undefined; // [batch, position, taps * hidden]
  /** Looks up all positions in a table [vocabulary, width]; differentiable for one-hot tokens. */
  embedWith(table: Tensor): Tensor; // [batch, position, width]
  readonly firstRow: Dimension;
  /** Causal, in the drafter's own head size. */
  readonly context: AttentionContext;
  readonly past: readonly KeyValueRows[] | undefined;
}

export interface DraftedLogits {
  readonly logits: readonly Tensor[]; // [depth] -> [batch, position - 1 - depth - firstRow, draft vocabulary]
  /** Predicted features: row t of the first depth is that of position t + 1. */
  readonly features?: Tensor | undefined; // [batch, position - 1, hidden]
  /** Logits of the probability that the target accepts each level. */
  readonly confidences?: readonly Tensor[] | undefined; // [depth] -> [batch, position - 1 - depth - firstRow, 1]
  readonly rows: readonly KeyValueRows[];
}

export interface PreparedDrafts {
  /** Lengths of greedy and of sampled chains. */
  readonly chains?: readonly number[] | undefined;
  readonly drawnChains?: readonly number[] | undefined;
  readonly trees?: readonly TreeSize[] | undefined;
}
