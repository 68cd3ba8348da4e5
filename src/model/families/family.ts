/** What one family does differently from the common decoder. */
import type { ContextFields, LayerWindow } from '../context-length.js';

export interface Family {
  readonly name: string;
  readonly architecture: string;
  readonly modelType: string;
  readTraits(config: Readonly<Record<string, unknown>>): FamilyTraits;
  /** Its layers' sliding window, undefined where they have none. */
  readWindow(fields: ContextFields): LayerWindow | undefined;
}

export interface FamilyTraits {
  /** Bias on the query, key and value projections. */
  readonly queryKeyValueBias: boolean;
  readonly outputBias: boolean;
  /** RMS norm on each head's query and key before rotation. */
  readonly queryKeyNorm: boolean;
}
