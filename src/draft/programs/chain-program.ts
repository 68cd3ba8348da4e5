/**
 * A chain drafted in one program: each level embeds the token that the previous one chose or drew. On a CPU, separate
 * calls are a large part of a small drafter's cost.
 */
import { blocked, maskInput, rowNumbers, type CombinedInput } from '../../model/attention-inputs.js';
import { lazilyBy } from '../../core/promises.js';
import { type Tensor, constant, input } from '../../graph/tensor.js';
import { argmax, draw, gatherRows } from '../../graph/operations/indexing.js';
import { sum } from '../../graph/operations/reductions.js';
import { broadcast, concatenate, reshape, slice } from '../../graph/operations/shaping.js';
import type { AttentionContext } from '../../model/decoder.js';
import type { RotaryTable } from '../../model/rotary/rotary.js';
import {
  compileLanes,
  type LaneProgram,
  type LaneRun,
  type PassScheduler,
} from '../../model/lanes/lane-program.js';
import { lanes } from '../../model/lanes/lane-graph.js';
import {
  declareDistribution,
  Sampler,
  samplingInputs,
  type Vocabularies,
} from '../../model/lanes/sampler.js';
import type { MixedValues, NamedTensors, Runtime } from '../../runtime/program.js';
import { bufferOf, float32, floatsOf, integersOf } from '../../runtime/program.js';
import type { RowBuffer } from '../../runtime/row-buffer.js';
import type { WeightStore } from '../../runtime/weights.js';
import type { PreparedDrafts } from '../drafter.js';
import type { Ask, LevelPrograms, SiblingDrawer } from '../tree/grow-tree.js';
import { chainTree, type TokenTree } from '../tree/token-tree.js';
import { requireScore } from './scores.js';

/** `token` [1, lanes] is the target's id; `total`, the sum of the scores, reveals NaN. */
interface ChosenToken {
  readonly token: Tensor;
  readonly score: Tensor;
  /** [1, lanes, vocabulary] */
  readonly distribution?: Tensor | undefined;
}

export interface ChainSizes {
  readonly sizes: { readonly headSize: number };
  /** Positions that a row sees; default all. */
  readonly window?: number | undefined;
}

export interface ChainPlaces {
  readonly rotary: RotaryTable;
  readonly window?: number | undefined;
}

/** Chooses the token of a level. logits [1, lanes, draft vocabulary] */
export type TokenChooser = (logits: Tensor) => ChosenToken;

// Not the maximum, which ignores NaN.
const sumOf = (logits: Tensor): Tensor => reshape(sum(logits, [-1]), logits.shape.slice(0, -1));

/** Ids of the draft vocabulary as the target's. */
export function toTarget(drafted: Tensor, targetTokens: Int32Array | undefined): Tensor {
  if (targetTokens === undefined) return drafted;
  return gatherRows(constant(Array.from(targetTokens), [targetTokens.length], 'int32'), drafted);
}

const chooseBest =
  (targetTokens: Int32Array | undefined): TokenChooser =>
  (logits) => ({ token: toTarget(argmax(logits), targetTokens), score: sumOf(logits) });

function drawTokens(length: number, vocabularies: Vocabularies): TokenChooser {
  const distributionOf = declareDistribution(vocabularies);
  const uniforms = input('uniforms', [length, lanes]);
  let level = 0;
  return (logits) => {
    const distribution = distributionOf(logits);
    const uniform = slice(uniforms, 0, level, level + 1);
    level += 1;
    return { token: draw(distribution, uniform), score: sumOf(logits), distribution };
  };
}

/** What drafted rows see of the verified ones: the same at all levels, unless a window moves with them. */
export function declareVerifiedMask(
  { mask }: AttentionContext,
  levels: number,
  window: number | undefined,
): (level: number) => Tensor {
  const all = input('chainMask', [lanes, 1, window === undefined ? 1 : levels, mask.shape.at(-1)!]);
  return (level) => (window === undefined ? all : slice(all, -2, level, level + 1));
}

/** Columns of the drafted rows at levels 0 to `level`, `width` each. */
export function draftedColumns(level: number, window: number | undefined, width = 1): Tensor {
  if (window === undefined || level < window) return constant(0);
  const columns = Array.from({ length: (level + 1) * width }, (_, column) =>
    level - Math.floor(column / width) < window ? 0 : blocked,
  );
  return constant(columns, [columns.length]);
}

/** Context of level 1, 2, ...: one row per lane that sees what the last verified row saw. */
export function declareChainContexts(
  context: AttentionContext,
  levels: number,
  { sizes: { headSize }, window }: ChainSizes,
): AttentionContext[] {
  if (levels === 0) return [];
  const verified = declareVerifiedMask(context, levels, window);
  const angles = (name: string) => {
    const all = input(name, [levels, lanes, headSize / 2]);
    return (level: number): Tensor => reshape(slice(all, 0, level, level + 1), [lanes, headSize / 2]);
  };
  const [cosine, sine] = [angles('chainCosine'), angles('chainSine')];
  return Array.from({ length: levels }, (_, level) => ({
    cosine: cosine(level),
    sine: sine(level),
    // One more column per earlier level.
    mask: concatenate(
      [verified(level), broadcast(draftedColumns(level, window), [lanes, 1, 1, level + 1])],
      -1,
    ),
    lanes,
  }));
}

/** Verified rows are at the positions before `start`. */
export function chainInputs(
  verified: MixedValues,
  { rotary, window }: ChainPlaces,
  start: number,
  length: number,
): MixedValues {
  const mask = floatsOf(verified, 'mask');
  const [rows, width] = verified.mask!.shape as [number, number];
  const levels = length - 1;
  const inputs = { ...verified, select: rowNumbers([rows - 1]) };
  if (levels === 0) return inputs;
  const { cosine, sine } = rotary.anglesAt(Int32Array.from({ length: levels }, (_, level) => start + level));
  const shape = [levels, cosine.length / levels];
  return {
    ...inputs,
    chainCosine: float32(cosine, shape),
    chainSine: float32(sine, shape),
    chainMask: moveWindow(mask.subarray((rows - 1) * width), { start, levels, window }),
  };
}

/** Level `l` is at position `start + l`; after the dummy, column i holds position i - 1. */
function moveWindow(
  last: Float32Array, // [past + row] of the last verified row
  {
    start,
    levels,
    window,
  }: { readonly start: number; readonly levels: number; readonly window?: number | undefined },
): CombinedInput {
  const width = last.length;
  if (window === undefined) return maskInput(last, [1, width]);
  const mask = new Float32Array(levels * width);
  for (let level = 0; level < levels; level++) {
    const from = level * width;
    const oldest = start + level - window + 1;
    mask.set(last, from);
    mask.fill(blocked, from, from + Math.min(width, Math.max(1, oldest + 1)));
  }
  return maskInput(mask, [levels, width]);
}

/** `rows`: new rows of the drafter's cache, if it has one. */
export function chainOutputs(chosen: readonly ChosenToken[], rows?: Tensor): NamedTensors {
  const distributions = chosen.flatMap(({ distribution }) => distribution ?? []);
  const [first] = distributions;
  return {
    chain: concatenate(
      chosen.map(({ token }) => token),
      0,
    ),
    chainScores: concatenate(
      chosen.map(({ score }) => score),
      0,
    ),
    ...(rows === undefined ? {} : { rows }),
    // One row per node; the last has no children.
    ...(first === undefined
      ? {}
      : { distributions: concatenate([...distributions, broadcast(constant(0), first.shape)], 0) }),
  };
}

/** Runs a program of a chain on the newest verified rows. */
type RunChain = (
  program: LaneProgram,
  names: readonly string[],
  length: number,
  options?: { readonly drawn?: MixedValues; readonly into?: LaneRun['into'] },
) => Promise<MixedValues>;

export interface Chains {
  prepare(drafts: PreparedDrafts): Promise<unknown>;
  /** @param cut shortens a greedy chain by further outputs of its program */
  start(scheduler: PassScheduler, run: RunChain, cut?: ChainCut): Pick<LevelPrograms, 'chain' | 'siblings'>;
}

interface ChainCut {
  readonly output: string;
  countKept(values: Float32Array): number;
}

interface ChainDrafter {
  readonly runtime: Runtime;
  readonly weights: readonly WeightStore[];
  readonly vocabularies: Vocabularies;
}

/** Greedy and sampled chains, and the sampler of siblings; only greedy ones unless the runtime draws in programs. */
export function createChains(
  { runtime, weights, vocabularies }: ChainDrafter,
  build: (length: number, choose: TokenChooser) => NamedTensors,
): Chains {
  const compile = (chooserOf: (length: number) => TokenChooser) =>
    lazilyBy((length: number) => compileLanes(runtime, build(length, chooserOf(length)), weights));
  const greedy = compile(() => chooseBest(vocabularies.targetTokens));
  const sampled = compile((length) => drawTokens(length, vocabularies));
  const canDraw = runtime.drawsInPrograms === true;
  const sampler = new Sampler(runtime, vocabularies);
  return {
    prepare: ({ chains = [], drawnChains = [] }) =>
      Promise.all([...chains.map(greedy), ...(canDraw ? drawnChains.map(sampled) : [])]),
    start(scheduler, run, cut) {
      const draftChain = async ({ root, depthLimit, onTokens }: Ask, length: number): Promise<TokenTree> => {
        const names = cut === undefined ? chainNames : [...chainNames, cut.output];
        const mayKeep = runtime.keepsTokens === true && cut === undefined && onTokens !== undefined;
        const into = mayKeep ? ({ chain: 'runtime', chainScores: 'runtime' } as const) : undefined;
        const outputs = await run(await greedy(length), names, length, { into });
        const isKept = 'buffer' in outputs.chain!;
        const tokens = isKept ? await readKeptChain(outputs, onTokens!) : readChain(outputs);
        const count = cut === undefined ? length : cut.countKept(floatsOf(outputs, cut.output));
        return chainTree(root, tokens.slice(0, Math.min(count, depthLimit)));
      };
      /** Uses the same random numbers as drawing level by level. */
      const drawChain = async (ask: Ask, length: number): Promise<TokenTree> => {
        const { root, random, depthLimit } = ask;
        const levels = Math.min(length, depthLimit);
        const uniforms = Float32Array.from({ length }, (_, level) => (level < levels ? random.next() : 0));
        const drawn = {
          uniforms: float32(uniforms, [length]),
          ...samplingInputs(ask.sampling, vocabularies.targetSize),
        };
        const outputs = await run(await sampled(length), [...chainNames, 'distributions'], length, { drawn });
        const laws = bufferOf(outputs, 'distributions').rows(0, levels + 1);
        return chainTree(root, readChain(outputs).slice(0, levels), laws);
      };
      const drawSiblings: SiblingDrawer['draw'] = async (...given) => {
        const drawn = await sampler.draw(...given, scheduler);
        drawn.totals.forEach(requireScore);
        return drawn;
      };
      return {
        siblings: canDraw ? { newRows: (count) => sampler.newRows(count), draw: drawSiblings } : undefined,
        chain(ask, length) {
          if (ask.sampling.temperature === 0) return draftChain(ask, length);
          return canDraw ? drawChain(ask, length) : undefined;
        },
      };
    },
  };
}

const chainNames: readonly string[] = ['chain', 'chainScores'];

/** Reading starts before what `onTokens` starts. */
async function readKeptChain(
  outputs: MixedValues,
  onTokens: (tokens: RowBuffer) => void,
): Promise<readonly number[]> {
  const [chain, chainScores] = [bufferOf(outputs, 'chain'), bufferOf(outputs, 'chainScores')];
  const reading = Promise.all([chain.read(), chainScores.read()]);
  onTokens(chain);
  chain.free();
  chainScores.free();
  const [tokens, scores] = await reading;
  scores.forEach(requireScore);
  return Array.from(new Int32Array(tokens.buffer));
}

function readChain(outputs: MixedValues): readonly number[] {
  floatsOf(outputs, 'chainScores').forEach(requireScore);
  return Array.from(integersOf(outputs, 'chain'));
}
