/** What the engine's step asks of its members (engine.ts), so that requests can name an engine and engines their members. */
import type { TokenTree } from '../draft/tree/token-tree.js';
import type { ForwardResult } from '../model/forward.js';
import type { BatchStep, PassScheduler } from '../model/lanes/lane-program.js';
import type { RowBuffer } from '../runtime/row-buffer.js';
import type { Verification } from './verification/verification.js';

/** What the target gave for a tree. */
export interface TreePass {
  readonly result: Omit<ForwardResult, 'rows'>;
  /** Undefined if they are in the cache already. */
  readonly rows: RowBuffer | undefined;
}

export interface Turn {
  readonly tree: TokenTree;
  readonly pass: TreePass;
  readonly verdict: Verification;
}

export interface StepTimes {
  readonly draftMs: number;
  readonly readMs: number;
  readonly judgeMs: number;
}

/** A prompt that is read in chunks. */
export interface ReadMember {
  /** Whether its next chunk can share a pass. */
  readonly isShort: boolean;
  readonly isDone: boolean;
  readOn(scheduler: PassScheduler): Promise<void>;
}

/** A sequence whose prompt is read. */
export interface StepMember {
  readonly prompt: ReadMember;
  readonly hasEnded: boolean;
  now(): number;
  propose(): Promise<TokenTree>;
  read(tree: TokenTree): Promise<TreePass>;
  judge(tree: TokenTree, pass: TreePass): Promise<Verification>;
  /** False at the end of the answer. */
  accept(turn: Turn, times: StepTimes, batch: BatchStep): boolean;
}

export interface Steps {
  readonly passes: PassScheduler;
  read(prompt: ReadMember): Promise<void>;
  /** Reads the sequence's prompt and decodes until its answer ends. */
  decode(sequence: StepMember): Promise<void>;
}
