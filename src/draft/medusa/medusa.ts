/**
 * Medusa (arXiv 2401.10774): K heads on the target's final features. Head i is a residual block x + SiLU(W x + b) and
 * a projection; it predicts the token i + 2 positions ahead, without seeing those between.
 */
import type { Checkpoint } from '../../checkpoint/stored-tensor.js';
import { lazily } from '../../core/promises.js';
import { add, silu } from '../../graph/operations/elementwise.js';
import { concatenate } from '../../graph/operations/shaping.js';
import { type Tensor, input } from '../../graph/tensor.js';
import { project } from '../../model/decoder.js';
import { lanes } from '../../model/lanes/lane-graph.js';
import { compileLanes, runDirectly, type LaneProgram } from '../../model/lanes/lane-program.js';
import { resident, type MixedValues } from '../../runtime/program.js';
import { type DrafterOptions, type DraftSystem } from '../draft-system.js';
import { type Drafter, noSuggestion } from '../drafter.js';
import { chainOutputs, createChains } from '../programs/chain-program.js';
import { scoreAtOnce, scoreOutputs } from '../programs/scores.js';
import { dropFirst, dropLast, PendingStates } from '../programs/states.js';
import { draftByLevels } from '../tree/grow-tree.js';
import { countParameters, prepareDrafterWeights, requireWidth } from '../reading/checks.js';
import { createMedusa, describeMedusa, recogniseMedusa, scope, type MedusaSizes } from './medusa-layout.js';

export const medusa: DraftSystem = {
  name: 'medusa',
  title: 'Medusa',
  recognise: recogniseMedusa,
  describe: describeMedusa,
  load: loadMedusa,
  training: {
    sizes: ['heads', 'layers'],
    settings: (heads) => ({ depth: heads, labels: 'tokens', decay: 0.8 }),
    create: createMedusa,
    repeatedBlocks: /^(medusa\.\d+)\.\d+(\.weight|\.bias)$/,
  },
};

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

async function loadMedusa(checkpoint: Checkpoint, options: DrafterOptions): Promise<Drafter> {
  const { configuration, runtime } = options.target;
  const parts = describeMedusa(checkpoint, { target: configuration });
  const { sizes } = parts;
  const { heads: headCount, hiddenSize, vocabularySize } = sizes;
  // Published configs do not state the target's sizes.
  requireWidth(checkpoint, parts.firstBlock, 1, hiddenSize);
  requireWidth(checkpoint, parts.firstOutput, 0, vocabularySize);
  const own = await prepareDrafterWeights(checkpoint, parts, options);
  const weights = [own];
  const vocabularies = { targetSize: vocabularySize, draftSize: vocabularySize };
  const runHeads = (count: number): Tensor[] => {
    const feature = input('feature', [1, lanes, hiddenSize]);
    return Array.from({ length: count }, (_, head) => runHead(feature, head, sizes));
  };
  const compile = lazily(() =>
    compileLanes(runtime, scoreOutputs(concatenate(runHeads(headCount), 0), runtime), weights),
  );
  const compiledChains = createChains({ runtime, weights, vocabularies }, (length, choose) =>
    chainOutputs(runHeads(length).map(choose)),
  );
  return {
    system: medusa.name,
    name: 'Medusa',
    reads: 'features',
    taps: [],
    maximumDepth: headCount,
    vocabularySize,
    parameterCount: countParameters(own),
    graph: {
      weights,
      targetTokens: undefined,
      attention: undefined,
      draftLogits: ({ features, firstRow }, depth) => ({
        logits: Array.from({ length: depth }, (_, head) =>
          runHead(dropFirst(dropLast(features, head + 1), firstRow), head, sizes),
        ),
        rows: [],
      }),
    },
    async prepare(drafts = {}) {
      await Promise.all([compile(), compiledChains.prepare(drafts)]);
    },
    startSession(scheduler = runDirectly) {
      const pending = new PendingStates(runtime, hiddenSize);
      const run = async (
        program: LaneProgram,
        names: readonly string[],
        _?: number,
        { drawn = {} }: { readonly drawn?: MixedValues } = {},
      ): Promise<MixedValues> => {
        const feature = pending.takeLast();
        const outputs = await scheduler.run(
          program,
          { inputs: { feature: resident(feature), ...drawn } },
          names,
        );
        feature.free();
        return outputs;
      };
      const scores = scoreAtOnce(runtime, vocabularies, async (names) => run(await compile(), names));
      return {
        room: Infinity,
        catchUp: () => Promise.resolve(),
        observe: (verified) => {
          pending.push(verified);
        },
        ...draftByLevels({ expand: scores.expand, ...compiledChains.start(scheduler, run) }),
        suggest: () => noSuggestion,
        close: () => {
          scores.free();
          pending.close();
        },
      };
    },
  };
}
