/**
 * Chains, sampled chains and dynamic trees in one program, for drafters with a memory. The same run reads the newly
 * verified rows.
 */
import { broadcast } from '../../graph/operations/shaping.js';
import type { Tensor } from '../../graph/tensor.js';
import type { AttentionContext } from '../../model/decoder.js';
import type { LaneProgram, PassScheduler } from '../../model/lanes/lane-program.js';
import type { MixedValues, NamedTensors, Runtime } from '../../runtime/program.js';
import type { WeightStore } from '../../runtime/weights.js';
import type { ChainPlaces, ChainSizes, TokenChooser } from './chain-program.js';
import {
  chainInputs,
  chainNames,
  chainOutputs,
  chooseBest,
  createChainCompiler,
  declareChainContexts,
  drawnInputs,
  drawnNames,
  drawTokens,
  readChain,
  readDrawnChain,
} from './chain-program.js';
import type { DraftMemory } from './draft-memory.js';
import type { DraftSession, PreparedDrafts, TreeSize } from '../drafter.js';
import type { Vocabularies } from './scores.js';
import { createSiblingDraws } from './sibling-draws.js';
import { buildTree, createTreeCompiler, readTree, treeInputs, treeNames } from './tree-program.js';

export interface FusedPrograms {
  readonly runtime: Runtime;
  readonly vocabularies: Vocabularies;
  readonly chain: (length: number) => Promise<LaneProgram>;
  readonly drawnChain: (length: number) => Promise<LaneProgram>;
  readonly tree: (size: TreeSize) => Promise<LaneProgram>;
  readonly siblings: ReturnType<typeof createSiblingDraws>;
}

/** A drafter's graph over the verified rows, and along a draft after them. */
export interface VerifiedGraph {
  readonly context: AttentionContext;
  readonly rows: Tensor;
  /** Logits after the last verified row. [1, lanes, draft vocabulary] */
  readonly root: Tensor;
  /**
   * Logits after drafted tokens, which see all earlier ones. [n, lanes] -> [n, lanes, draft vocabulary]
   * @param arrange moves rows of the previous call to their children
   */
  readonly next: (tokens: Tensor, own: AttentionContext, arrange: (rows: Tensor) => Tensor) => Tensor;
  /** All levels in one pass, if they do not depend on the drafted tokens. */
  readonly together?: ((levels: readonly AttentionContext[]) => TogetherRead) | undefined;
}

export interface TogetherRead {
  readonly rows: Tensor;
  readonly levels: readonly Tensor[]; // [level] -> [1, lanes, draft vocabulary], the root's first
}

export function createFusedPrograms(
  runtime: Runtime,
  weights: readonly WeightStore[],
  { vocabularies, ...sizes }: ChainSizes & { readonly vocabularies: Vocabularies },
  read: () => VerifiedGraph,
): FusedPrograms {
  const { targetTokens } = vocabularies;
  const chainOf = (length: number, choose: TokenChooser): NamedTensors => {
    const { context, rows, root, next, together } = read();
    const contexts = declareChainContexts(context, length - 1, sizes);
    if (together !== undefined && contexts.length > 0) {
      const drafted = together(contexts);
      return chainOutputs(drafted.levels.map(choose), drafted.rows);
    }
    const chosen = [choose(root)];
    for (const level of contexts) chosen.push(choose(next(chosen.at(-1)!.token, level, (same) => same)));
    return chainOutputs(chosen, rows);
  };
  const treeOf = (size: TreeSize): NamedTensors => {
    const { context, rows, root, next } = read();
    const widen = (x: Tensor): Tensor =>
      x.shape[0] === 1 ? broadcast(x, [size.topK, ...x.shape.slice(1)]) : x;
    const tree = buildTree(size, { context, targetTokens, ...sizes }, root, (round) =>
      next(round.tokens, round.context, (before) => round.fromParents(widen(before))),
    );
    return { ...tree, rows };
  };
  return {
    runtime,
    vocabularies,
    chain: createChainCompiler(runtime, weights, (length) => chainOf(length, chooseBest(targetTokens))),
    drawnChain: createChainCompiler(runtime, weights, (length) =>
      chainOf(length, drawTokens(length, vocabularies)),
    ),
    tree: createTreeCompiler(runtime, weights, treeOf),
    siblings: createSiblingDraws(runtime, vocabularies),
  };
}

export async function prepareFused(
  { runtime, chain, drawnChain, tree }: FusedPrograms,
  { chains = [], drawnChains = [], trees = [] }: PreparedDrafts = {},
): Promise<void> {
  const drawn = runtime.drawsInPrograms === true ? drawnChains : [];
  await Promise.all([
    ...chains.map((length) => chain(length)),
    ...drawn.map((length) => drawnChain(length)),
    ...trees.map((size) => tree(size)),
  ]);
}

export interface FusedDrafting extends ChainPlaces {
  readonly memory: DraftMemory;
  readonly scheduler: PassScheduler;
  /** Reads all but the last chunk of a long text. */
  readonly reader: () => Promise<LaneProgram>;
}

export function draftFused(
  programs: FusedPrograms,
  { memory, scheduler, reader, ...places }: FusedDrafting,
): Pick<DraftSession, 'siblings' | 'draftChain' | 'drawChain' | 'draftTree'> {
  const { runtime, vocabularies } = programs;
  const draft = async (
    program: LaneProgram,
    names: readonly string[],
    inputsBehind: (inputs: MixedValues, start: number) => MixedValues,
  ): Promise<MixedValues> =>
    memory.read(await reader(), [], (inputs, count) => {
      const start = memory.attention.verifiedLength + count;
      return memory.run(program, inputsBehind(inputs, start), [...names, 'rows']);
    });

  return {
    siblings: programs.siblings?.(scheduler),
    async draftChain(length) {
      const behind = (inputs: MixedValues, start: number) => chainInputs(inputs, places, start, length);
      return readChain(await draft(await programs.chain(length), chainNames, behind));
    },
    ...(runtime.drawsInPrograms === true
      ? {
          async drawChain(uniforms, sampling) {
            const { length } = uniforms;
            const behind = (inputs: MixedValues, start: number) => ({
              ...chainInputs(inputs, places, start, length),
              ...drawnInputs(uniforms, sampling, vocabularies),
            });
            return readDrawnChain(await draft(await programs.drawnChain(length), drawnNames, behind));
          },
        }
      : {}),
    async draftTree(size) {
      const behind = (inputs: MixedValues, start: number) => treeInputs(inputs, places, start, size);
      return readTree(await draft(await programs.tree(size), treeNames(size), behind), size);
    },
  };
}
