/** Chooses the siblings of a static tree: by rank, or drawn without replacement on the host or the device. */
import type { Random } from '../../core/random.js';
import { drawWithoutReplacement } from '../../core/random.js';
import type { SamplingOptions } from '../../core/sampling.js';
import { toDistribution } from '../../core/sampling.js';
import type { RowBuffer } from '../../runtime/row-buffer.js';
import type { TokenTree } from './token-tree.js';
import { finishTree } from './token-tree.js';
import type { DraftSession, GrowingDraft } from '../drafter.js';
import type { SiblingDrawer } from '../programs/program-drafts.js';
import { detailFor } from '../programs/scores.js';

export type Expand = DraftSession['expand'];

export interface SiblingChooser {
  /** [node] Fewer tokens than requested if there are no more. */
  choose(
    draft: GrowingDraft,
    nodes: readonly number[],
    counts: readonly number[],
  ): Promise<readonly ArrayLike<number>[]>;
  finish(draft: GrowingDraft): TokenTree;
}

/** @param ranks max ranks of any node, because some heads run once for the whole tree */
export function rankSiblings(expand: Expand, ranks: number): SiblingChooser {
  return {
    async choose(draft, nodes, counts) {
      const scores = await expand(draft, nodes, detailFor(ranks));
      return counts.map((count, row) => scores.top(row, count).tokens);
    },
    finish: (draft) => finishTree(draft, undefined),
  };
}

export interface DrawSettings {
  readonly sampling: SamplingOptions;
  readonly random: Random;
  readonly nodes: number;
}

export function drawSiblings(
  expand: Expand,
  siblings: SiblingDrawer | undefined,
  settings: DrawSettings,
): SiblingChooser {
  return siblings === undefined ? drawOnHost(expand, settings) : drawInPrograms(expand, siblings, settings);
}

function drawOnHost(expand: Expand, { sampling, random }: DrawSettings): SiblingChooser {
  const distributions: (Float32Array | undefined)[] = [];
  return {
    async choose(draft, nodes, counts) {
      const scores = await expand(draft, nodes, 'logits');
      return counts.map((count, row) => {
        const distribution = toDistribution(scores.logits(row), sampling);
        distributions[nodes[row]!] = distribution;
        return drawWithoutReplacement(distribution, count, random);
      });
    },
    finish: (draft) => finishTree(draft, distributions),
  };
}

function drawInPrograms(
  expand: Expand,
  siblings: SiblingDrawer,
  { sampling, random, nodes: most }: DrawSettings,
): SiblingChooser {
  let kept: RowBuffer | undefined;
  return {
    async choose(draft, nodes, counts) {
      const scores = await expand(draft, nodes, 'kept');
      const rows = scores.kept!(nodes.length);
      const { tokens, distributions } = await siblings.draw(rows, counts, sampling, random);
      kept ??= siblings.newRows(most);
      kept.copyRows(
        distributions,
        nodes.map((_, row) => row),
        nodes,
      );
      distributions.free();
      return tokens;
    },
    finish: (draft) => finishTree(draft, kept?.rows(0, draft.tokens.length)),
  };
}
