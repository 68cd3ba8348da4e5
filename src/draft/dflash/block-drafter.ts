/**
 * Programs and sessions of drafters that fill a block in one pass. One run reads the newly verified rows into the cache
 * and scores all levels behind them.
 */
import { lazily } from '../../core/promises.js';
import { type Tensor, input } from '../../graph/tensor.js';
import { gatherRows } from '../../graph/operations/indexing.js';
import { broadcast, concatenate, slice } from '../../graph/operations/shaping.js';
import { KvCache } from '../../model/cache/kv-cache.js';
import * as lane from '../../model/lanes/lane-graph.js';
import type { LaneProgram, PassScheduler } from '../../model/lanes/lane-program.js';
import { compileLanes, runDirectly } from '../../model/lanes/lane-program.js';
import type { MixedValues, NamedTensors, Runtime } from '../../runtime/program.js';
import { bufferOf, floatsOf, int32, resident } from '../../runtime/program.js';
import type { RowBuffer } from '../../runtime/row-buffer.js';
import type { WeightStore } from '../../runtime/weights.js';
import type { Drafter, DraftSession, SiblingDrawer } from '../drafter.js';
import type { TokenChooser } from '../programs/chain-program.js';
import {
  chainInputs,
  chainNames,
  chainOutputs,
  chooseBest,
  createChainCompiler,
  drawnInputs,
  drawnNames,
  drawTokens,
  readChain,
  readDrawnChain,
} from '../programs/chain-program.js';
import { DraftMemory } from '../programs/draft-memory.js';
import { NodeRows } from '../programs/states.js';
import type { DraftScores, Vocabularies } from '../programs/scores.js';
import { readScores, repeatRow, scoreNames, scoreOutputs } from '../programs/scores.js';
import { createSiblingDraws } from '../programs/sibling-draws.js';
import { draftBlocks, readVerified, runBlock, scoreLevel, type BlockHead } from './block-graph.js';

export interface BlockDrafter extends BlockHead {
  readonly runtime: Runtime;
  /** Its own, and those that it borrows from the target. */
  readonly weights: readonly WeightStore[];
  readonly vocabularies: Vocabularies;
  /** Positions up to which drafts are exact. */
  readonly reach: number;
  /** The whole block must lie within the reach: a sliding window ends there. */
  readonly hasWindow: boolean;
}

interface BlockPrograms {
  readonly reader: () => Promise<LaneProgram>;
  /** Scores of all levels, or with a Markov head the features that its steps score. */
  readonly levels: () => Promise<LaneProgram>;
  readonly step: () => Promise<LaneProgram>;
  readonly chain: (length: number) => Promise<LaneProgram>;
  readonly drawnChain: (length: number) => Promise<LaneProgram>;
}

export function createBlockDrafter(
  head: BlockDrafter,
  described: Pick<Drafter, 'system' | 'name' | 'taps' | 'parameterCount'>,
): Drafter {
  const { runtime, weights, sizes, rotary, vocabularies } = head;
  const compile = (build: () => NamedTensors): (() => Promise<LaneProgram>) =>
    lazily(() => compileLanes(runtime, 'draft', build(), weights));
  const compileChain = (chooserOf: (length: number) => TokenChooser) =>
    createChainCompiler(runtime, weights, (length) => buildChain(head, length, chooserOf(length)));
  const programs: BlockPrograms = {
    reader: compile(() => ({ rows: lane.stackRows(readVerified(head).rows, sizes) })),
    levels: compile(() => {
      const { features, rows } = runBlock(head);
      const outputs = head.markov ? { features } : scoreOutputs(head.score(features), runtime);
      return { ...outputs, rows };
    }),
    step: compile(() => buildStep(head)),
    chain: compileChain(() => chooseBest(vocabularies.targetTokens)),
    drawnChain: compileChain((length) => drawTokens(length, vocabularies)),
  };
  const siblings = createSiblingDraws(runtime, vocabularies);
  return {
    ...described,
    reads: 'taps',
    maximumDepth: head.slots - head.firstSlot,
    vocabularySize: vocabularies.draftSize,
    graph: {
      weights,
      targetTokens: vocabularies.targetTokens,
      attention: {
        sizes,
        rotary,
        readPrefix: async (verified, cache) =>
          new DraftMemory({ ...head, cache }).readPrefix(verified, await programs.reader()),
      },
      draftLogits: (teacher, depth) => draftBlocks(head, teacher, depth),
    },
    async prepare({ chains = [], drawnChains = [] } = {}) {
      const drawn = runtime.drawsInPrograms === true ? drawnChains : [];
      await Promise.all([
        programs.reader(),
        programs.levels(),
        ...(head.markov === undefined ? [] : [programs.step()]),
        ...chains.map(programs.chain),
        ...drawn.map(programs.drawnChain),
      ]);
    },
    startSession: (scheduler = runDirectly) => startSession(head, programs, scheduler, siblings?.(scheduler)),
  };
}

/** Rows of the Markov head for the previous tokens. */
const embedPrevious = ({ markov }: BlockHead, tokens: Tensor): Tensor | undefined =>
  markov && gatherRows(markov.table, tokens);

function buildChain(head: BlockHead, length: number, choose: TokenChooser): NamedTensors {
  const { features, root, rows } = runBlock(head);
  let token = root;
  let state: Tensor | undefined;
  const confidences: Tensor[] = []; // [level] -> [1, lanes, 1]
  const chosen = Array.from({ length }, (_, level) => {
    const own = slice(features, 0, level, level + 1);
    const previous = embedPrevious(head, token);
    if (cutsChains(head)) confidences.push(head.confidence!(own, previous));
    const scored = scoreLevel(head, own, previous, state);
    ({ state } = scored);
    const best = choose(scored.logits);
    token = best.token;
    return best;
  });
  const outputs = chainOutputs(chosen, rows);
  return cutsChains(head) ? { ...outputs, confidences: concatenate(confidences, 0) } : outputs;
}

const cutsChains = ({ confidence, threshold }: BlockHead): boolean =>
  confidence !== undefined && threshold !== undefined;

/** A level behind given tokens. */
function buildStep(head: BlockDrafter): NamedTensors {
  const { row, lanes } = lane;
  const { hiddenSize } = head.sizes;
  const { stateWidth } = head.markov!;
  const feature = broadcast(input('feature', [1, lanes, hiddenSize]), [row, lanes, hiddenSize]);
  const previous = embedPrevious(head, input('tokens', [row, lanes], 'int32'));
  const before = stateWidth === 0 ? undefined : input('states', [row, lanes, stateWidth]);
  const { logits, state } = scoreLevel(head, feature, previous, before);
  return { ...scoreOutputs(logits, head.runtime), ...(state === undefined ? {} : { features: state }) };
}

function startSession(
  head: BlockDrafter,
  programs: BlockPrograms,
  scheduler: PassScheduler,
  siblings: SiblingDrawer | undefined,
): DraftSession {
  const { runtime, vocabularies, sizes, rotary, slots, markov } = head;
  const memory = new DraftMemory({ ...head, cache: new KvCache(sizes, runtime), scheduler });
  let scores: DraftScores | undefined; // of all levels
  let kept: RowBuffer | undefined; // scores or features of all levels, on the device
  const states = new NodeRows(runtime, markov?.stateWidth ?? 0);
  /** The program runs on the newest rows, which the root follows. */
  const run = async (
    program: LaneProgram,
    names: readonly string[],
    more: MixedValues = {},
  ): Promise<MixedValues> =>
    memory.read(await programs.reader(), [], (inputs, count) => {
      const start = memory.attention.verifiedLength + count;
      const own = chainInputs(inputs, { rotary }, start, slots + 1);
      return memory.run(program, { ...own, ...more }, [...names, 'rows']);
    });

  return {
    get room() {
      const length = Math.max(1, memory.length);
      if (head.hasWindow) return length + slots <= head.reach ? slots : 0;
      return head.reach - length;
    },
    observe(verified) {
      memory.observe(verified);
    },
    async catchUp() {
      await memory.catchUp(await programs.reader());
    },
    async expand(draft, nodes, want) {
      const depth = draft.depths[nodes[0]!]!;
      if (markov === undefined) {
        // Deeper levels ask for no more detail than the first.
        if (depth === 0) {
          kept?.free();
          const outputs = await run(await programs.levels(), scoreNames(want));
          kept = want === 'kept' ? bufferOf(outputs, 'scores') : undefined;
          scores = readScores(outputs, want, vocabularies);
        }
        return repeatRow(scores!, depth, runtime);
      }
      if (depth === 0) {
        kept?.free();
        kept = bufferOf(await run(await programs.levels(), ['features']), 'features');
        states.clear();
      }
      const before =
        markov.stateWidth === 0 ? undefined : states.gather(nodes.map((node) => draft.parents[node]!));
      const inputs = {
        feature: resident(kept!.rows(depth, 1)),
        tokens: int32(nodes.map((node) => draft.tokens[node]!)),
        ...(before === undefined ? {} : { states: resident(before) }),
      };
      const names = [...scoreNames(want), ...(before === undefined ? [] : ['features'])];
      const outputs = await scheduler.run(await programs.step(), { inputs }, names);
      before?.free();
      if (before !== undefined) states.keep(bufferOf(outputs, 'features'), nodes);
      return readScores(outputs, want, vocabularies);
    },
    siblings,
    async draftChain(length) {
      const names = cutsChains(head) ? [...chainNames, 'confidences'] : chainNames;
      const outputs = await run(await programs.chain(length), names);
      const tokens = readChain(outputs);
      if (!cutsChains(head)) return tokens;
      const limit = Math.log(head.threshold! / (1 - head.threshold!));
      const end = floatsOf(outputs, 'confidences').findIndex((logit) => logit < limit);
      return end < 0 ? tokens : tokens.slice(0, end);
    },
    ...(runtime.drawsInPrograms === true
      ? {
          async drawChain(uniforms, sampling) {
            const drawn = drawnInputs(uniforms, sampling, vocabularies);
            return readDrawnChain(await run(await programs.drawnChain(uniforms.length), drawnNames, drawn));
          },
        }
      : {}),
    close() {
      kept?.free();
      states.clear();
      memory.close();
    },
  };
}
