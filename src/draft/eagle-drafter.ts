/** The part of Drafter that EAGLE and EAGLE-3 share. */
import type { Checkpoint } from '../checkpoint/stored-tensor.js';
import { lazily } from '../core/lazy.js';
import type { Tensor } from '../graph/tensor.js';
import { weight } from '../graph/operations/leaves.js';
import type { CausalModel } from '../model/causal-model.js';
import { embeddingTable } from '../model/decoder.js';
import { compileLanes } from '../model/lane-program.js';
import { alone } from '../model/meeting.js';
import type { WeightStore } from '../runtime/weights.js';
import { createChainCompiler, drawTokens } from './chain-program.js';
import { anotherTarget, misfit } from './checks.js';
import type { Drafter } from './drafter.js';
import type { EagleParts } from './eagle-parts.js';
import type { EagleHead, EaglePrograms } from './eagle-session.js';
import { buildEagleGraph, readEaglePrefix, startEagleSession } from './eagle-session.js';
import { buildEagleChain } from './eagle-chain.js';
import { draftEagleLogits } from './eagle-teacher.js';
import { buildEagleTree } from './eagle-tree.js';
import { createSiblingDraws } from './sibling-draws.js';
import { createTreeCompiler } from './tree-program.js';

export interface LoadedHead extends Pick<Drafter, 'system' | 'name' | 'reads' | 'taps' | 'parameterCount'> {
  readonly head: EagleHead;
  readonly weights: WeightStore;
}

/** A table of the head's own wins over the target's, as in the authors' loader. [vocabulary, hidden] */
export function embeddingOf(
  { folder }: Checkpoint,
  { ownVocabulary, configuration: { hiddenSize } }: EagleParts,
  scope: string,
  { configuration, scope: targetScope }: CausalModel,
): Tensor {
  if (ownVocabulary === undefined) return embeddingTable(configuration, targetScope);
  const { vocabularySize } = configuration;
  if (ownVocabulary === vocabularySize)
    return weight(`${scope}embed_tokens.weight`, [vocabularySize, hiddenSize]);
  throw misfit(
    folder,
    `has embeddings of its own for ${ownVocabulary} tokens; the target has ${vocabularySize}`,
    anotherTarget,
  );
}

export function createEagleDrafter({ head, weights, ...described }: LoadedHead): Drafter {
  const { target, configuration, vocabularies } = head;
  const stores = [weights, target.weights];
  const compile = (kind: 'verified' | 'drafted') =>
    lazily(() => compileLanes(target.runtime, 'draft', buildEagleGraph(head, kind), stores));
  const programs: EaglePrograms = {
    verified: compile('verified'),
    drafted: compile('drafted'),
    chain: createChainCompiler(target.runtime, stores, (length) => buildEagleChain(head, length)),
    drawnChain: createChainCompiler(target.runtime, stores, (length) =>
      buildEagleChain(head, length, drawTokens(length, vocabularies)),
    ),
    siblings: createSiblingDraws(target.runtime, vocabularies),
    tree: createTreeCompiler(target.runtime, stores, (size) => buildEagleTree(head, size)),
  };
  return {
    ...described,
    maximumDepth: Infinity,
    vocabularySize: vocabularies.draftSize,
    async prepare({ chains = [], drawnChains = [], trees = [] } = {}) {
      const { verified, drafted, chain, drawnChain, tree } = programs;
      const drawn = target.runtime.drawsInPrograms === true ? drawnChains : [];
      await Promise.all([
        ...[verified(), drafted()],
        ...chains.map((length) => chain(length)),
        ...drawn.map((length) => drawnChain(length)),
        ...trees.map((size) => tree(size)),
      ]);
    },
    startSession: (meeting = alone) => startEagleSession(head, programs, meeting),
    graph: {
      weights: stores,
      targetTokens: vocabularies.targetTokens,
      attention: {
        sizes: configuration,
        rotary: head.rotary,
        readPrefix: (verified, cache) => readEaglePrefix(head, programs, verified, cache),
      },
      draftLogits: (teacher, depth) => {
        const states = described.reads === 'taps' ? teacher.taps! : teacher.features;
        return draftEagleLogits(head, states, teacher, depth);
      },
    },
  };
}
