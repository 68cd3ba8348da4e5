/** Where logits stay while tokens are drawn: on the host, or in a runtime that draws itself. */
import type { SamplingOptions } from '../core/sampling.js';
import type { TokenTree } from '../draft/tree/token-tree.js';
import type { CausalModel } from '../model/causal-model.js';
import type { PassScheduler } from '../model/lanes/pass-scheduler.js';
import { runDirectly } from '../model/lanes/pass-scheduler.js';
import type { TokenDraws } from '../model/lanes/token-draws.js';
import type { RowBuffer } from '../runtime/row-buffer.js';

export interface LogitsOnDevice {
  readonly draws: TokenDraws;
  readonly scheduler: PassScheduler;
  /** [node, vocabulary] The draft distributions of a tree's nodes. */
  draftedRows(tree: TokenTree): RowBuffer;
}

export interface LogitsUse {
  readonly sampling: SamplingOptions;
  readonly scheduler?: PassScheduler | undefined;
  /** Likelihoods need whole rows on the host. */
  readonly topLikelihoods?: number | undefined;
}

/** Undefined: logits go to the host. */
export function locateLogits(
  { runtime, draws, configuration: { vocabularySize } }: CausalModel,
  { sampling, scheduler = runDirectly, topLikelihoods }: LogitsUse,
): LogitsOnDevice | undefined {
  if (runtime.drawsInPrograms !== true || sampling.temperature === 0 || topLikelihoods !== undefined)
    return undefined;
  return {
    draws,
    scheduler,
    draftedRows({ tokens, draftDistributions, keptDistributions }) {
      if (keptDistributions !== undefined) return keptDistributions;
      const rows = runtime.allocate(tokens.length, vocabularySize);
      draftDistributions.forEach((distribution, node) => {
        if (distribution !== undefined && node < tokens.length) rows.write(distribution, node);
      });
      return rows;
    },
  };
}
