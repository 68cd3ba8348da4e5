/**
 * Medusa (arXiv 2401.10774): K heads on the target's final features. Head i is a residual block x + SiLU(W x + b) and
 * a projection; it predicts the token i + 2 positions ahead, without seeing those between.
 */
import type { Checkpoint } from '../../checkpoint/stored-tensor.js';
import { lazily } from '../../core/lazy.js';
import type { Tensor } from '../../graph/tensor.js';
import { add, silu } from '../../graph/operations/elementwise.js';
import { input } from '../../graph/operations/leaves.js';
import { concatenate } from '../../graph/operations/shaping.js';
import type { CausalModel } from '../../model/causal-model.js';
import { project } from '../../model/decoder-layer.js';
import type { LaneProgram, PassScheduler } from '../../model/lanes/lane-program.js';
import { compileLanes, runDirectly } from '../../model/lanes/lane-program.js';
import { lanes } from '../../model/lanes/lane-graph.js';
import type { NamedTensors } from '../../runtime/program.js';
import { resident } from '../../runtime/program.js';
import type { WeightStore } from '../../runtime/weights.js';
import {
  chainNames,
  chainOutputs,
  chooseBest,
  createChainCompiler,
  readChain,
} from '../programs/chain-program.js';
import { countParameters, refuseUnread, requireSizes, requireWidth } from '../reading/checks.js';
import type { DrafterOptions, WeightedSystem } from '../draft-system.js';
import { prepareDrafterWeights } from '../draft-system.js';
import type { Drafter, DraftSession, TeacherForcing } from '../drafter.js';
import type { MedusaSizes } from './medusa-layout.js';
import { describeMedusa, recogniseMedusa } from './medusa-layout.js';
import { dropFirst, dropLast, PendingStates } from '../programs/states.js';
import type { PreparedDrafts } from '../programs/program-drafts.js';
import type { DraftScores } from '../programs/scores.js';
import { readScores, repeatRow, scoreNames, scoreOutputs } from '../programs/scores.js';
import { createSiblingDraws } from '../programs/sibling-draws.js';

export const medusa: WeightedSystem = {
  name: 'medusa',
  title: 'Medusa',
  recognise: recogniseMedusa,
  describe: (checkpoint, refuse) => describeMedusa(checkpoint, '', { refuse }),
  load: loadMedusa,
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
  refuseUnread(checkpoint.folder, parts.unread);
  const weights = await prepareDrafterWeights(checkpoint, parts.recipes, options);
  return new Medusa(parts.sizes, target, weights);
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

class Medusa implements Drafter {
  readonly system = 'medusa';
  readonly name = 'Medusa';
  readonly reads = 'features';
  readonly taps = [];
  readonly maximumDepth: number;
  readonly vocabularySize: number;
  readonly parameterCount: number;
  readonly graph;
  private readonly compile: () => Promise<LaneProgram>;
  private readonly siblings: ReturnType<typeof createSiblingDraws>;
  private readonly compileChain: (length: number) => Promise<LaneProgram>;

  constructor(
    private readonly sizes: MedusaSizes,
    private readonly target: CausalModel,
    weights: WeightStore,
  ) {
    this.maximumDepth = sizes.heads;
    this.vocabularySize = sizes.vocabularySize;
    const { vocabularySize } = sizes;
    const vocabularies = { targetSize: vocabularySize, draftSize: vocabularySize };
    this.siblings = createSiblingDraws(target.runtime, vocabularies);
    this.parameterCount = countParameters(weights);
    const { runtime } = target;
    this.compile = lazily(() => compileLanes(runtime, 'draft', this.buildGraph(), [weights]));
    this.compileChain = createChainCompiler(runtime, [weights], (length) => this.buildChain(length));
    this.graph = {
      weights: [weights],
      targetTokens: undefined,
      attention: undefined,
      draftLogits: ({ features, firstRow }: TeacherForcing, depth: number) => ({
        logits: Array.from({ length: depth }, (_, head) =>
          runHead(dropFirst(dropLast(features, head + 1), firstRow), head, sizes),
        ),
        rows: [],
      }),
    };
  }

  async prepare({ chains = [] }: PreparedDrafts = {}): Promise<void> {
    await Promise.all([this.compile(), ...chains.map((length) => this.compileChain(length))]);
  }

  private buildGraph(): NamedTensors {
    const { hiddenSize, heads } = this.sizes;
    const feature = input('feature', [1, lanes, hiddenSize]);
    const logits = Array.from({ length: heads }, (_, head) => runHead(feature, head, this.sizes));
    return scoreOutputs(concatenate(logits, 0), this.target.runtime);
  }

  private buildChain(length: number): NamedTensors {
    const feature = input('feature', [1, lanes, this.sizes.hiddenSize]);
    const choose = chooseBest(undefined);
    const chosen = Array.from({ length }, (_, head) => choose(runHead(feature, head, this.sizes)));
    return chainOutputs(chosen);
  }

  startSession(scheduler: PassScheduler = runDirectly): DraftSession {
    const { hiddenSize, vocabularySize } = this.sizes;
    const pending = new PendingStates(this.target.runtime, hiddenSize);
    let heads: DraftScores | undefined;
    return {
      room: Infinity,
      observe: (verified) => {
        pending.push(verified);
      },
      expand: async (draft, nodes, want) => {
        const depth = draft.depths[nodes[0]!]!;
        if (depth === 0) {
          const program = await this.compile();
          const feature = pending.takeLast();
          const inputs = { feature: resident(feature) };
          // Deeper levels ask for no more detail than the first, and all heads run at once.
          const outputs = await scheduler.run(program, { inputs }, scoreNames(want));
          feature.free();
          heads = readScores(outputs, want, { targetSize: vocabularySize, draftSize: vocabularySize });
        }
        return repeatRow(heads!, depth, this.target.runtime);
      },
      siblings: this.siblings?.(scheduler),
      draftChain: async (length) => {
        const program = await this.compileChain(length);
        const feature = pending.takeLast();
        const inputs = { feature: resident(feature) };
        const outputs = await scheduler.run(program, { inputs }, chainNames);
        feature.free();
        return readChain(outputs);
      },
      close: () => {
        pending.close();
      },
    };
  }
}
