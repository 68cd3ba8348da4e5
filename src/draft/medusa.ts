/**
 * Medusa (arXiv 2401.10774): K heads on the target's final features. Head i is a residual block x + SiLU(W x + b) and a
 * projection to the vocabulary; it predicts the token i + 2 behind its position, without seeing the ones between.
 */
import { z } from 'zod';
import type { WeightRecipe } from '../checkpoint/weight-recipe.js';
import type { Checkpoint } from '../checkpoint/stored-tensor.js';
import type { CacheOptions } from '../checkpoint/weight-cache.js';
import { prepareWeights } from '../checkpoint/weight-cache.js';
import type { Tensor } from '../graph/tensor.js';
import { add, silu } from '../graph/operations/elementwise.js';
import { input } from '../graph/operations/leaves.js';
import { concatenate } from '../graph/operations/shaping.js';
import type { CausalModel } from '../model/causal-model.js';
import { project } from '../model/decoder-layer.js';
import { projectionRecipe, vectorRecipe } from '../model/weights.js';
import type { LaneProgram } from '../model/lane-program.js';
import { compileLanes, lanes } from '../model/lane-program.js';
import type { Meeting } from '../model/meeting.js';
import { alone } from '../model/meeting.js';
import type { NamedTensors } from '../runtime/program.js';
import { float32 } from '../runtime/program.js';
import type { WeightStore } from '../runtime/weights.js';
import { misfit, requireSizes, requireWidth } from './checks.js';
import { dropFirst, dropLast } from './positions.js';
import type { Drafter, DraftSession, TeacherForcing } from './drafter.js';
import type { DraftScores } from './scores.js';
import { chainNames, chainOutputs, chooseToken, createChainCompiler, readChain } from './chain-program.js';
import { recogniseCheckpoint } from './recognise.js';
import { readScores, repeatRow, scoreNames, scoreOutputs } from './scores.js';
import { PendingStates } from './states.js';
import { listUnread, refuseUnread } from './unread-tensors.js';

/** The published layouts name the same tensors in three ways. */
interface Layout {
  readonly block: (head: number, layer: number) => string;
  readonly output: (head: number, layers: number) => string;
}

const numbered = (prefix: string): Layout => ({
  block: (head, layer) => `${prefix}${head}.${layer}.linear`,
  output: (head, layers) => `${prefix}${head}.${layers}`,
});
const namedByVllm = (prefix: string): Layout => ({
  block: (head, layer) => `${prefix}blocks.${head}.layers.${layer}`,
  output: (head) => `${prefix}lm_heads.${head}`,
});
const layouts: readonly Layout[] = [
  numbered(''),
  numbered('medusa_head.'),
  numbered('medusa_heads.'),
  namedByVllm(''),
  namedByVllm('medusa_heads.'),
];

interface MedusaSizes {
  readonly heads: number;
  readonly layers: number;
  readonly hiddenSize: number;
  readonly vocabularySize: number;
}

const scope = 'medusa.';

export async function loadMedusa(
  checkpoint: Checkpoint,
  target: CausalModel,
  options: CacheOptions,
): Promise<Drafter> {
  const { hiddenSize, vocabularySize } = target.configuration;
  requireSizes(checkpoint, target);
  const { layout, heads, layers } = findLayout(checkpoint);
  checkDeclaredHeads(checkpoint, heads);
  // Published configs name the target and none of its sizes.
  requireWidth(checkpoint, `${layout.block(0, 0)}.weight`, 1, hiddenSize);
  requireWidth(checkpoint, `${layout.output(0, layers)}.weight`, 0, vocabularySize);
  const sizes = { heads, layers, hiddenSize, vocabularySize };
  const recipes = medusaRecipes(sizes, layout);
  // In the shards of a target only the heads are this file's business.
  const others = recogniseCheckpoint(checkpoint).kind === 'decoder' ? [/^(?!medusa_head)/] : [];
  refuseUnread(checkpoint.folder, listUnread(checkpoint, recipes, others));
  const weights = await prepareWeights(checkpoint, recipes, options);
  return new Medusa(sizes, target, weights);
}

function findLayout({ tensors, folder }: Checkpoint): { layout: Layout; heads: number; layers: number } {
  for (const layout of layouts) {
    if (!tensors.has(`${layout.block(0, 0)}.weight`)) continue;
    let heads = 1;
    while (tensors.has(`${layout.block(heads, 0)}.weight`)) heads += 1;
    let layers = 1;
    while (tensors.has(`${layout.block(0, layers)}.weight`)) layers += 1;
    return { layout, heads, layers };
  }
  throw misfit(
    folder,
    'holds no Medusa head that is known here',
    'Expected 0.0.linear.weight, medusa_head.0.0.linear.weight or blocks.0.layers.0.weight.',
  );
}

/** Published configs are known to say 2 where the file holds 5 heads: more than declared is fine, fewer is damage. */
function checkDeclaredHeads({ config, folder }: Checkpoint, found: number): void {
  const declared = z
    .number()
    .int()
    .positive()
    .safeParse(config.medusa_num_heads ?? config.num_heads);
  if (declared.success && declared.data > found) {
    throw misfit(
      folder,
      `declares ${declared.data} heads and holds ${found}`,
      'The file is incomplete: download it again.',
    );
  }
}

function medusaRecipes(
  { heads, layers, hiddenSize, vocabularySize }: MedusaSizes,
  layout: Layout,
): WeightRecipe[] {
  return Array.from({ length: heads }, (_, head) => [
    ...Array.from({ length: layers }, (_, layer) => {
      const [name, source] = [`${scope}${head}.${layer}`, layout.block(head, layer)];
      return [
        projectionRecipe(`${name}.weight`, `${source}.weight`, hiddenSize, hiddenSize),
        vectorRecipe(`${name}.bias`, `${source}.bias`, hiddenSize),
      ];
    }).flat(),
    projectionRecipe(
      `${scope}${head}.lm_head.weight`,
      `${layout.output(head, layers)}.weight`,
      hiddenSize,
      vocabularySize,
    ),
  ]).flat();
}

/** features [..., hidden] -> [..., vocabulary] */
function runHead(
  features: Tensor,
  head: number,
  { layers, hiddenSize, vocabularySize }: MedusaSizes,
): Tensor {
  let hidden = features;
  for (let layer = 0; layer < layers; layer++) {
    hidden = add(hidden, silu(project(hidden, `${scope}${head}.${layer}`, hiddenSize, hiddenSize, true)));
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
  private program: Promise<LaneProgram> | undefined;
  private readonly compileChain: (length: number) => Promise<LaneProgram>;

  constructor(
    private readonly sizes: MedusaSizes,
    private readonly target: CausalModel,
    private readonly weights: WeightStore,
  ) {
    this.maximumDepth = sizes.heads;
    this.vocabularySize = sizes.vocabularySize;
    this.parameterCount =
      sizes.heads * sizes.hiddenSize * (sizes.layers * (sizes.hiddenSize + 1) + sizes.vocabularySize);
    this.compileChain = createChainCompiler(target.runtime, [weights], (length) => this.buildChain(length));
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

  async prepare(chains: readonly number[] = []): Promise<void> {
    await Promise.all([this.compile(), ...chains.map((length) => this.compileChain(length))]);
  }

  private compile(): Promise<LaneProgram> {
    const { runtime } = this.target;
    return (this.program ??= compileLanes(runtime, 'draft', this.buildGraph(), [this.weights]));
  }

  private buildGraph(): NamedTensors {
    const { hiddenSize, heads } = this.sizes;
    const feature = input('feature', [1, lanes, hiddenSize]);
    const logits = Array.from({ length: heads }, (_, head) => runHead(feature, head, this.sizes));
    return scoreOutputs(concatenate(logits, 0));
  }

  /** The first heads alone, each with its most likely token. */
  private buildChain(length: number): NamedTensors {
    const feature = input('feature', [1, lanes, this.sizes.hiddenSize]);
    const chosen = Array.from({ length }, (_, head) =>
      chooseToken(runHead(feature, head, this.sizes), undefined),
    );
    return chainOutputs(chosen);
  }

  startSession(meeting: Meeting = alone): DraftSession {
    const { hiddenSize, vocabularySize } = this.sizes;
    const pending = new PendingStates(hiddenSize);
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
          const inputs = { feature: float32(pending.takeLast(), [1, hiddenSize]) };
          // Deeper levels ask for no more detail than the first one, and all heads are there at once.
          const outputs = await meeting.run(program, { inputs }, scoreNames(want));
          heads = readScores(outputs, want, { targetSize: vocabularySize, draftSize: vocabularySize });
        }
        return repeatRow(heads!, depth);
      },
      draftChain: async (length) => {
        const program = await this.compileChain(length);
        const inputs = { feature: float32(pending.takeLast(), [1, hiddenSize]) };
        return readChain(await meeting.run(program, { inputs }, chainNames));
      },
      close: () => undefined,
    };
  }
}
