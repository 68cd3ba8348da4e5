/** Where the target's scores stay while tokens are drawn by them: with the host, or with a runtime that draws there. */
import type { SamplingOptions } from '../core/sampling.js';
import type { TokenTree } from '../draft/tree/token-tree.js';
import type { CausalModel } from '../model/causal-model.js';
import type { Meeting } from '../model/lanes/pass-scheduler.js';
import { alone } from '../model/lanes/pass-scheduler.js';
import type { TokenDraws } from '../model/lanes/token-draws.js';
import type { RowBuffer } from '../runtime/row-buffer.js';

export interface LogitsOnDevice {
  readonly draws: TokenDraws;
  readonly meeting: Meeting;
  /** [node, vocabulary] what a tree's nodes were drawn from, in memory of the runtime. */
  draftedRows(tree: TokenTree): RowBuffer;
}

export interface ScoreUse {
  readonly sampling: SamplingOptions;
  readonly meeting?: Meeting | undefined;
  /** Whoever wants likelihoods reads whole rows anyway. */
  readonly topLikelihoods?: number | undefined;
}

/** undefined: scores come to the host. */
export function placeScores(
  { runtime, draws, configuration: { vocabularySize } }: CausalModel,
  { sampling, meeting = alone, topLikelihoods }: ScoreUse,
): LogitsOnDevice | undefined {
  if (runtime.drawsInPrograms !== true || sampling.temperature === 0 || topLikelihoods !== undefined)
    return undefined;
  return {
    draws,
    meeting,
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
