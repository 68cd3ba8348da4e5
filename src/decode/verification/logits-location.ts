import type { SamplingOptions } from '../../core/sampling.js';
import { splitRows, sum } from '../../core/vector.js';
import { isOnDevice, type TokenTree } from '../../draft/tree/token-tree.js';
import type { CausalModel } from '../../model/causal-model.js';
import type { KeptScores } from '../../model/forward.js';
import type { PassScheduler } from '../../model/lanes/lane-program.js';
import type { Sampler } from '../../model/lanes/sampler.js';
import type { RowBuffer } from '../../runtime/row-buffer.js';

/** Where logits stay while tokens are drawn: on the host, or in a runtime that draws itself. */
export interface LogitsOnDevice {
  readonly sampler: Sampler;
  readonly scheduler: PassScheduler;
  /** What each node's drawn children were drawn from. [node, vocabulary] */
  lawsByNode(tree: TokenTree): RowBuffer;
  /** Whole rows, for trees that the device can't judge. [node, vocabulary] */
  bringToHost(scores: KeptScores): Promise<Float32Array>;
}

/** Undefined: logits go to the host. Likelihoods need whole rows there. */
export function locateLogits(
  { runtime, sampler, configuration: { vocabularySize } }: CausalModel,
  request: { readonly sampling: SamplingOptions; readonly topLikelihoods?: number | undefined },
  scheduler: PassScheduler,
): LogitsOnDevice | undefined {
  const { sampling, topLikelihoods } = request;
  if (runtime.drawsInPrograms !== true || sampling.temperature === 0 || topLikelihoods !== undefined)
    return undefined;
  return {
    sampler,
    scheduler,
    lawsByNode({ tokens, trials, laws }) {
      const lawOf = trials.map((own) => own.find(({ law }) => law !== undefined)?.law);
      const isByNode = lawOf.every((law, node) => law === undefined || law === node);
      if (isOnDevice(laws) && isByNode && laws.rowCount === tokens.length) return laws;
      const rows = runtime.allocate(tokens.length, vocabularySize);
      lawOf.forEach((law, node) => {
        if (law === undefined) return;
        if (isOnDevice(laws)) rows.write(laws.rows(law, 1), node);
        else rows.write(laws[law]!, node);
      });
      if (isOnDevice(laws)) laws.free();
      return rows;
    },
    async bringToHost(scores) {
      const rows = await scores.rows.read();
      const totals = splitRows(rows, vocabularySize).map((row) => sum(row));
      scores.release(Float32Array.from(totals));
      return rows;
    },
  };
}
