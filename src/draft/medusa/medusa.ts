/**
 * Medusa (arXiv 2401.10774): K heads on the target's final features. Head i is a residual block x + SiLU(W x + b) and
 * a projection; it predicts the token i + 2 positions ahead, without seeing those between.
 */
import type { Checkpoint } from '../../checkpoint/stored-tensor.js';
import { lazily } from '../../core/promises.js';
import { type Tensor, input } from '../../graph/tensor.js';
import { add, silu } from '../../graph/operations/elementwise.js';
import { concatenate } from '../../graph/operations/shaping.js';
import type { CausalModel } from '../../model/causal-model.js';
import { project } from '../../model/decoder.js';
import { compileLanes, runDirectly, type LaneProgram } from '../../model/lanes/lane-program.js';
import { lanes } from '../../model/lanes/lane-graph.js';
import { bufferOf, resident, type MixedValues } from '../../runtime/program.js';
import type { RowBuffer } from '../../runtime/row-buffer.js';
import type { WeightStore } from '../../runtime/weights.js';
import {
  chainNames,
  chainOutputs,
  chooseBest,
  createChainCompiler,
  readChain,
} from '../programs/chain-program.js';
import { countParameters, requireSizes, requireWidth } from '../reading/checks.js';
import { prepareDrafterWeights, type DrafterOptions, type WeightedSystem } from '../draft-system.js';
import type { Drafter } from '../drafter.js';
import { createMedusa, describeMedusa, recogniseMedusa, type MedusaSizes } from './medusa-layout.js';
import { dropFirst, dropLast, PendingStates } from '../programs/states.js';
import { readScores, repeatRow, scoreNames, scoreOutputs, type DraftScores } from '../programs/scores.js';
import { createSiblingDraws } from '../programs/sibling-draws.js';

export const medusa: WeightedSystem = {
  name: 'medusa',
  title: 'Medusa',
  recognise: recogniseMedusa,
  describe: (checkpoint, refuse) => describeMedusa(checkpoint, '', { refuse }),
  load: loadMedusa,
  training: {
    sizes: ['heads', 'layers'],
    settings: (heads) => ({ depth: heads, labels: 'tokens', decay: 0.8 }),
    create: createMedusa,
    repeatedBlocks: /^(medusa\.\d+)\.\d+(\.weight|\.bias)$/,
  },
};

const scope = 'medusa.';

async function loadMedusa(checkpoint: Checkpoint, options: DrafterOptions): Promise<Drafter> {
  const { target } = options;
  const { hiddenSize, vocabularySize } = target.configuration;
  requireSizes(checkpoint, target);
  const parts = describeMedusa(checkpoint, scope, { target: target.configuration });
  // Published configs do not state the target's sizes.
  requireWidth(checkpoint, parts.firstBlock, 1, hiddenSize);
  requireWidth(checkpoint, parts.firstOutput, 0, vocabularySize);
  return createDrafter(parts.sizes, target, await prepareDrafterWeights(checkpoint, parts, options));
}

/** features [..., hidden] -> [..., vocabulary] */
function runHead(
  features: Tensor,
  head: number,
  { layers, hasBias, hiddenSize, vocabularySize }: MedusaSizes,
): Tensor {
  let hidden = features;
  for (let layer = 0; layer < layers; layer++) {
    hidden = add(hidden, silu(project(hidden, `${scope}${head}.${layer}`, hiddenSize, hiddenSize, hasBias)));
  }
  return project(hidden, `${scope}${head}.lm_head`, hiddenSize, vocabularySize);
}

function createDrafter(sizes: MedusaSizes, target: CausalModel, weights: WeightStore): Drafter {
  const { runtime } = target;
  const { heads: headCount, hiddenSize, vocabularySize } = sizes;
  const vocabularies = { targetSize: vocabularySize, draftSize: vocabularySize };
  const siblings = createSiblingDraws(runtime, vocabularies);
  const runHeads = (count: number): Tensor[] => {
    const feature = input('feature', [1, lanes, hiddenSize]);
    return Array.from({ length: count }, (_, head) => runHead(feature, head, sizes));
  };
  const compile = lazily(() =>
    compileLanes(runtime, 'draft', scoreOutputs(concatenate(runHeads(headCount), 0), runtime), [weights]),
  );
  const compileChain = createChainCompiler(runtime, [weights], (length) =>
    chainOutputs(runHeads(length).map(chooseBest(undefined))),
  );
  return {
    system: medusa.name,
    name: 'Medusa',
    reads: 'features',
    taps: [],
    maximumDepth: headCount,
    vocabularySize,
    parameterCount: countParameters(weights),
    graph: {
      weights: [weights],
      targetTokens: undefined,
      attention: undefined,
      draftLogits: ({ features, firstRow }, depth) => ({
        logits: Array.from({ length: depth }, (_, head) =>
          runHead(dropFirst(dropLast(features, head + 1), firstRow), head, sizes),
        ),
        rows: [],
      }),
    },
    async prepare({ chains = [] } = {}) {
      await Promise.all([compile(), ...chains.map(compileChain)]);
    },
    startSession(scheduler = runDirectly) {
      const pending = new PendingStates(runtime, hiddenSize);
      let scores: DraftScores | undefined;
      let kept: RowBuffer | undefined; // all heads' scores, of which every level gets a copy
      const run = async (program: LaneProgram, names: readonly string[]): Promise<MixedValues> => {
        const feature = pending.takeLast();
        const outputs = await scheduler.run(program, { inputs: { feature: resident(feature) } }, names);
        feature.free();
        return outputs;
      };
      return {
        room: Infinity,
        observe: (verified) => {
          pending.push(verified);
        },
        expand: async (draft, nodes, want) => {
          const depth = draft.depths[nodes[0]!]!;
          // Deeper levels ask for no more detail than the first, and all heads run at once.
          if (depth === 0) {
            kept?.free();
            const outputs = await run(await compile(), scoreNames(want));
            kept = want === 'kept' ? bufferOf(outputs, 'scores') : undefined;
            scores = readScores(outputs, want, vocabularies);
          }
          return repeatRow(scores!, depth, runtime);
        },
        siblings: siblings?.(scheduler),
        draftChain: async (length) => readChain(await run(await compileChain(length), chainNames)),
        close: () => {
          kept?.free();
          pending.close();
        },
      };
    },
  };
}
