/**
 * The drafter interface. A drafter scores the tokens after the nodes of a growing draft, level by level; the policy
 * builds the tree (grow-tree.ts), and the target verifies it.
 */
import type { Dimension } from '../graph/dimension.js';
import type { Tensor } from '../graph/tensor.js';
import type { WeightStore } from '../runtime/weights.js';
import type { AttentionContext, KeyValueRows } from '../model/decoder.js';
import type { CacheSizes } from '../model/cache/cache-pool.js';
import type { KvCache } from '../model/cache/kv-cache.js';
import type { PassScheduler } from '../model/lanes/lane-program.js';
import type { RotaryTable } from '../model/rotary/rotary.js';
import type { DraftScores, ScoreDetail } from './programs/scores.js';
import type { Random } from '../core/random.js';
import type { SamplingOptions } from '../core/sampling.js';
import type { RowBuffer } from '../runtime/row-buffer.js';

export interface Drafter {
  readonly system: string;
  readonly name: string;
  /** What it reads of the target besides tokens. */
  readonly reads: 'tokens' | 'features' | 'taps';
  readonly maximumDepth: number;
  readonly vocabularySize: number;
  readonly isChainOnly?: boolean | undefined;
  /** Layers whose input residual stream is tapped. */
  readonly taps: readonly number[];
  /** Without weights borrowed from the target. */
  readonly parameterCount: number;
  /** Of its keys and values, if it has no graph that says so. */
  readonly cacheSizes?: CacheSizes | undefined;
  /** Of a lookup in the text beside it (hybrid.ts). */
  readonly lookup?: MatchLengths | undefined;
  prepare(drafts?: PreparedDrafts): Promise<void>;
  /** `scheduler` joins its passes with those of other sequences. */
  startSession(scheduler?: PassScheduler): DraftSession;
  /** For gradients and for scoring many candidates; undefined if there is none. */
  readonly graph: DraftGraph | undefined;
}

/** Empty where nothing was found. */
export interface LookupDraft {
  readonly tokens: readonly number[];
  /** [level] How likely all tokens up to this one are right. */
  readonly survival: readonly number[];
}

/** How many tokens of the text have to match (ngram.ts). */
export interface MatchLengths {
  readonly min: number;
  readonly max: number;
}

export interface DraftSession {
  /** Copies the states that it needs later. */
  observe(verified: VerifiedTokens): void;
  /** Levels that fit the drafter's own context. */
  readonly room: number;
  /** Proposals depend only on the text, at any temperature; it has draftChain. */
  readonly isDeterministic?: boolean | undefined;
  /** What the text itself suggests (hybrid.ts), at most `length` tokens. */
  lookUp?(length: number): LookupDraft;
  /** Its tokens if they should bring more for their cost than a chain of the drafter; else none. */
  lookUpInstead?(length: number): readonly number[];
  /**
   * Scores of the tokens after each node. Node 0 is the root; the nodes of a call have one depth, and their parents
   * were expanded since the last observe.
   */
  expand(draft: GrowingDraft, nodes: readonly number[], want: ScoreDetail): Promise<DraftScores>;
  /** Draws from scores of detail `kept`; only if the runtime draws in programs. */
  readonly siblings?: SiblingDrawer | undefined;
  /** Reads everything except the newest row: the drafter's part of the prefill. */
  catchUp?(): Promise<void>;
  /** Keeps the first `kept` tokens of the text and reads these behind them; only if it reads tokens alone. */
  replaceText?(kept: number, tokens: readonly number[]): void;
  /**
   * The most likely chain in one program; the same as expanding level by level, unless the vocabulary is another. May be
   * shorter. Only observe may follow.
   * @param onTokens is called with all of them, if they are in the runtime before they are known: [level], int32 bits
   */
  draftChain?:
    | ((length: number, onTokens?: (tokens: RowBuffer) => void) => Promise<readonly number[]>)
    | undefined;
  /**
   * A chain sampled in one program with the given random numbers; the same as drawing level by level. Only if the
   * runtime draws in programs.
   */
  drawChain?: ((uniforms: readonly number[], sampling: SamplingOptions) => Promise<DrawnChain>) | undefined;
  /** A dynamic tree in one program; the same as expanding level by level. */
  draftTree?: ((size: TreeSize) => Promise<readonly TreeLevel[]>) | undefined;
  close(): void;
}

export interface VerifiedTokens {
  /** [row] Newly read by the target: the prompt, later the old root and the accepted path. */
  readonly tokens: Int32Array;
  /** [row, width] Features or taps; undefined for drafters that read tokens only. */
  readonly states: RowBuffer | undefined;
  /** The first token of the next chunk, or the root of the next draft. */
  readonly next: number;
}

export interface GrowingDraft {
  readonly tokens: readonly number[]; // [node]
  readonly parents: readonly number[]; // [node]
  readonly depths: readonly number[]; // [node]
}

export interface DraftGraph {
  readonly weights: readonly WeightStore[];
  /** Undefined if the vocabularies are equal. */
  readonly targetTokens: Int32Array | undefined; // [draft token]
  /** Undefined for heads without attention. */
  readonly attention: GraphAttention | undefined;
  /**
   * Logits along known tokens: element d, row t belongs to token t + 2 + d, drafted from the target's state at t and
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

export interface TreeSize {
  /** Rounds of expansion after the root's, at least one. */
  readonly depth: number;
  /** Expanded nodes per round, and children of each. */
  readonly topK: number;
}

/** Children of the expanded nodes, `topK` each. */
export interface TreeLevel {
  readonly tokens: Int32Array;
  readonly scores: Float32Array;
  /** Children expanded next; empty in the last level. */
  readonly chosen: ArrayLike<number>;
}

export interface DrawnChain {
  readonly tokens: readonly number[]; // [level]
  /** With an empty last row. [level + 1, vocabulary] */
  readonly distributions: RowBuffer;
}

export interface DrawnSiblings {
  /** [node] Fewer than requested if no more were possible. */
  readonly tokens: readonly (readonly number[])[];
  /** [node, vocabulary] */
  readonly distributions: RowBuffer;
}

/** Draws siblings without replacement on the device. */
export interface SiblingDrawer {
  /** `counts`: [node] siblings per row. */
  draw(
    scores: RowBuffer, // [node, draft vocabulary]
    counts: readonly number[],
    sampling: SamplingOptions,
    random: Random,
  ): Promise<DrawnSiblings>;
  /** Zeros. [count, vocabulary] */
  newRows(count: number): RowBuffer;
}

export interface PreparedDrafts {
  /** Lengths of greedy and of sampled chains. */
  readonly chains?: readonly number[] | undefined;
  readonly drawnChains?: readonly number[] | undefined;
  readonly trees?: readonly TreeSize[] | undefined;
}
