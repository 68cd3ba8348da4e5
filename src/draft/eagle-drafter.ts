/** The part of Drafter that EAGLE and EAGLE-3 share. */
import type { Program } from '../runtime/program.js';
import type { WeightStore } from '../runtime/weights.js';
import { createChainCompiler } from './chain-program.js';
import type { Drafter } from './drafter.js';
import type { EagleHead, EaglePrograms } from './eagle-session.js';
import { buildEagleGraph, readEaglePrefix, startEagleSession } from './eagle-session.js';
import { buildEagleChain } from './eagle-chain.js';
import { draftEagleLogits } from './eagle-teacher.js';

export interface EagleParts extends Pick<Drafter, 'system' | 'name' | 'reads' | 'taps' | 'parameterCount'> {
  readonly head: EagleHead;
  readonly weights: WeightStore;
}

export function createEagleDrafter({ head, weights, ...described }: EagleParts): Drafter {
  const { target, configuration, vocabularies } = head;
  const stores = [weights, target.weights];
  let programs: EaglePrograms | undefined;
  const compile = (): EaglePrograms => {
    const build = (kind: 'verified' | 'drafted'): Promise<Program> =>
      target.runtime.compile(buildEagleGraph(head, kind), stores, { packed: true });
    return (programs ??= {
      verified: build('verified'),
      drafted: build('drafted'),
      chain: createChainCompiler(target.runtime, stores, (length) => buildEagleChain(head, length)),
    });
  };
  return {
    ...described,
    maximumDepth: Infinity,
    vocabularySize: vocabularies.draftSize,
    async prepare(chains = []) {
      const compiled = compile();
      const { verified, drafted } = compiled;
      await Promise.all([verified, drafted, ...chains.map((length) => compiled.chain(length))]);
    },
    startSession: () => startEagleSession(head, compile),
    graph: {
      weights: stores,
      targetTokens: vocabularies.targetTokens,
      attention: {
        sizes: configuration,
        rotary: head.rotary,
        readPrefix: (verified, cache) => readEaglePrefix(head, compile(), verified, cache),
      },
      draftLogits: (teacher, depth) => {
        const states = described.reads === 'taps' ? teacher.taps! : teacher.features;
        return draftEagleLogits(head, states, teacher, depth);
      },
    },
  };
}
