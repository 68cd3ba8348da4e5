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
import { anotherTarget, misfit } from './checks.js';
import type { Drafter } from './drafter.js';
import type { EagleParts } from './eagle-parts.js';
import type { EagleHead, EaglePrograms } from './eagle-session.js';
import { buildEagleGraph, readEaglePrefix, startEagleSession } from './eagle-session.js';
import { buildEagleChain, buildEagleTree } from './eagle-drafts.js';
import { draftEagleLogits } from './eagle-teacher.js';
import { createWholePrograms, prepareWholes } from './whole-drafts.js';

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
    wholes: createWholePrograms(target.runtime, stores, vocabularies, {
      chain: (length, choose) => buildEagleChain(head, length, choose),
      tree: (size) => buildEagleTree(head, size),
    }),
  };
  return {
    ...described,
    maximumDepth: Infinity,
    vocabularySize: vocabularies.draftSize,
    async prepare(drafts) {
      const { verified, drafted, wholes } = programs;
      await Promise.all([verified(), drafted(), prepareWholes(wholes, drafts)]);
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
