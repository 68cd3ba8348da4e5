import type { ContextFields, LayerWindow } from '../context-length.js';

export interface Family {
  readonly name: string;
  readonly architecture: string;
  readonly modelType: string;
  readTraits(config: Readonly<Record<string, unknown>>): FamilyTraits;
  readWindow(fields: ContextFields): LayerWindow | undefined;
}

export interface FamilyTraits {
  readonly queryKeyValueBias: boolean;
  readonly outputBias: boolean;
  /** RMS norm of each head's query and key before rotation. */
  readonly queryKeyNorm: boolean;
}
