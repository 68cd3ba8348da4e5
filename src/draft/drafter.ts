/**
 * The drafter interface. A drafter scores the tokens that could follow the nodes of a growing draft, one level at a
 * time; which of them become the tree is the policy's business (grow-tree.ts), and which survive is the target's.
 * What a system is besides is in draft-system.ts.
 */
import type { SamplingOptions } from '../core/sampling.js';
import type { Dimension } from '../graph/dimension.js';
import type { Tensor } from '../graph/tensor.js';
import type { RowBuffer } from '../runtime/row-buffer.js';
import type { WeightStore } from '../runtime/weights.js';
import type { AttentionContext, KeyValueRows } from '../model/decoder-layer.js';
import type { CacheSizes } from '../model/cache/cache-pool.js';
import type { KvCache } from '../model/cache/kv-cache.js';
import type { PassScheduler } from '../model/lanes/pass-scheduler.js';
import type { RotaryTable } from '../model/rotary/rotary.js';
import type { MatchLengths } from './ngram/lookup-index.js';
import type {
  DrawnChain,
  PreparedDrafts,
  SiblingDrawer,
  TreeLevel,
  TreeSize,
} from './programs/program-drafts.js';
import type { DraftScores, ScoreDetail } from './programs/scores.js';

export interface Drafter {
  /** The name of its DraftSystem. */
  readonly system: string;
  readonly name: string;
  /** What it reads of the target's pass besides tokens. */
  readonly reads: 'tokens' | 'features' | 'taps';
  /** Deepest level it can propose. */
  readonly maximumDepth: number;
  readonly vocabularySize: number;
  /** It never has a choice of several tokens to offer: its drafts are chains. */
  readonly isChainOnly?: boolean;
  /** Layers before which the target's residual stream is tapped. */
  readonly taps: readonly number[];
  /** Parameters of the drafter alone, without what it borrows from the target. */
  readonly parameterCount: number;
  /** Matches in the text that replace its chains (hybrid.ts). */
  readonly lookup?: MatchLengths;
  /** Compiles its programs ahead of the first draft, and those of the given drafts. */
  prepare(drafts?: PreparedDrafts): Promise<void>;
  /** `scheduler`: where its passes may be joined with those of other sequences; alone unless given. */
  startSession(scheduler?: PassScheduler): DraftSession;
  /** The same drafter as a graph, for gradients and for scoring many candidates at once; undefined where there is none. */
  readonly graph: DraftGraph | undefined;
}

/** One request's drafting state. */
export interface DraftSession {
  /** Takes the tokens that became verified since the last call. It copies states that it needs later. */
  observe(verified: VerifiedTokens): void;
  /** Levels that fit the drafter's own context. */
  readonly room: number;
  /** What it proposes follows from the text alone and is never drawn, at any temperature; it has draftChain. */
  readonly isDeterministic?: boolean;
  /**
   * Tokens found in the text itself (hybrid.ts), at most `length`: they replace a chain and are merged into a tree. Empty
   * where nothing was found.
   */
  lookUp?(length: number): readonly number[];
  /**
   * Scores of the tokens behind each given node. Node 0 is the root; all nodes of one call have one depth, and their
   * parents were expanded before, since the last observe.
   */
  expand(draft: GrowingDraft, nodes: readonly number[], want: ScoreDetail): Promise<DraftScores>;
  /** Draws siblings by scores of detail `kept`; only where the runtime draws in programs. */
  readonly siblings?: SiblingDrawer | undefined;
  /** Reads what it was told so far, but for what the next draft begins with: the drafter's part of the prefill. */
  catchUp?(): Promise<void>;
  /**
   * The drafter's most likely chain behind the root, drafted in one program: what expanding level by level gives, with
   * one call instead of many; shorter where it has no more to propose. Optional; after it, only observe may follow.
   */
  draftChain?: ((length: number) => Promise<readonly number[]>) | undefined;
  /**
   * A chain that is drawn inside one program, each level from the drafter's processed distribution by a random number of
   * its own: what expanding level by level and drawing gives. Only where the runtime draws in programs.
   */
  drawChain?: ((uniforms: readonly number[], sampling: SamplingOptions) => Promise<DrawnChain>) | undefined;
  /** The levels of a dynamic tree behind the root, drafted in one program: what expanding them one by one gives. */
  draftTree?: ((size: TreeSize) => Promise<readonly TreeLevel[]>) | undefined;
  /** Gives back what it holds. Nothing may be asked any more. */
  close(): void;
}

export interface VerifiedTokens {
  /** [row] tokens that the target has just read: the prompt, later the old root and the accepted path. */
  readonly tokens: Int32Array;
  /** [row, width] the target's features or taps at those tokens; undefined for drafters that read tokens only. */
  readonly states: RowBuffer | undefined;
  /** The token behind them: the first of the next chunk, or the root of the next draft. */
  readonly next: number;
}

export interface GrowingDraft {
  readonly tokens: readonly number[]; // [node]
  readonly parents: readonly number[]; // [node]
  readonly depths: readonly number[]; // [node]
}

export interface DraftGraph {
  readonly weights: readonly WeightStore[];
  /** Target token of each draft token; undefined where the two vocabularies are one. */
  readonly targetTokens: Int32Array | undefined; // [draft token]
  /** The attention that the drafter brings along; undefined for heads without any. */
  readonly attention: GraphAttention | undefined;
  /**
   * Logits of a draft along known tokens: element d, row t belongs to token t + 2 + d, drafted from the target's state
   * at t and the tokens t + 1 .. t + 1 + d. Rows before `firstRow` are not scored, rows whose tokens lie beyond the
   * end are cut.
   */
  draftLogits(teacher: TeacherForcing, depth: number): DraftedLogits;
}

export interface GraphAttention {
  readonly sizes: CacheSizes;
  readonly rotary: RotaryTable;
  /** Positions that a row sees, where that is fewer than the context. */
  readonly window?: number | undefined;
  /** Appends what the drafter keeps of verified tokens to a cache, which draftLogits takes for its past. */
  readPrefix(verified: VerifiedTokens, cache: KvCache): Promise<void>;
}

export interface TeacherForcing {
  readonly features: Tensor; // [batch, position, hidden]
  readonly taps: Tensor | undefined; // [batch, position, taps * hidden]
  /** Looks the tokens of all positions up in a table [vocabulary, width]: differentiable where tokens are one-hot. */
  embedWith(table: Tensor): Tensor; // [batch, position, width]
  /** The first position whose draft is wanted. */
  readonly firstRow: Dimension;
  /** Attention over these positions, causal, in the drafter's own head size. */
  readonly context: AttentionContext;
  /** The drafter's own cache of the positions before, where there are any. */
  readonly past: readonly KeyValueRows[] | undefined;
}

export interface DraftedLogits {
  readonly logits: readonly Tensor[]; // [depth] -> [batch, position - 1 - depth - firstRow, draft vocabulary]
  /** Where a drafter predicts the target's features: row t of the first depth is that of position t + 1. */
  readonly features?: Tensor; // [batch, position - 1, hidden]
  /** New rows of the drafter's attention, for filling its cache. */
  readonly rows: readonly KeyValueRows[];
}
