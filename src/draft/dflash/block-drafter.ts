/**
 * Programs and sessions of drafters that fill a block in one pass. One run reads the newly verified rows into the cache
 * and scores all levels behind them.
 */
import { lazily } from '../../core/promises.js';
import { broadcast, concatenate, slice } from '../../graph/operations/shaping.js';
import { type Tensor, input } from '../../graph/tensor.js';
import { KvCache } from '../../model/cache/kv-cache.js';
import * as lane from '../../model/lanes/lane-graph.js';
import type { LaneProgram, PassScheduler } from '../../model/lanes/lane-program.js';
import { compileLanes, runDirectly } from '../../model/lanes/lane-program.js';
import type { MixedValues, NamedTensors, Runtime } from '../../runtime/program.js';
import { bufferOf, int32, resident } from '../../runtime/program.js';
import type { RowBuffer } from '../../runtime/row-buffer.js';
import type { WeightStore } from '../../runtime/weights.js';
import { type Drafter, type DraftSession, noSuggestion } from '../drafter.js';
import type { Chains, TokenChooser } from '../programs/chain-program.js';
import { chainInputs, chainOutputs, createChains } from '../programs/chain-program.js';
import { DraftMemory } from '../programs/draft-memory.js';
import type { Vocabularies } from '../../model/lanes/sampler.js';
import { readScores, scoreAtOnce, scoreNames, scoreOutputs } from '../programs/scores.js';
import { NodeRows } from '../programs/states.js';
import { draftByLevels, type Expand } from '../tree/grow-tree.js';
import type { MarkovHead } from './markov-head.js';
import {
  draftBlocks,
  embedPrevious,
  readVerified,
  runBlock,
  scoreLevel,
  type BlockHead,
} from './block-graph.js';

export interface BlockDrafter extends BlockHead {
  readonly runtime: Runtime;
  /** Its own, and those that it borrows from the target. */
  readonly weights: readonly WeightStore[];
  readonly vocabularies: Vocabularies;
  readonly reach: number;
  /**
   * The whole block must lie within a sliding window, whichever layers have one: beyond it, trainers count from the
   * block's first slot, and engines from each.
   */
  readonly windowEnd: number | undefined;
}

interface BlockPrograms {
  readonly reader: () => Promise<LaneProgram>;
  /** Scores of all levels, or with a Markov head the features that its steps score, and its state before them. */
  readonly levels: () => Promise<LaneProgram>;
  readonly step: () => Promise<LaneProgram>;
  readonly chains: Chains;
}

export function createBlockDrafter(
  head: BlockDrafter,
  described: Pick<Drafter, 'system' | 'name' | 'taps' | 'parameterCount'>,
): Drafter {
  const { runtime, weights, sizes, rotary, vocabularies } = head;
  const compile = (build: () => NamedTensors): (() => Promise<LaneProgram>) =>
    lazily(() => compileLanes(runtime, build(), weights));
  const programs: BlockPrograms = {
    reader: compile(() => ({ rows: lane.stackRows(readVerified(head).rows, sizes) })),
    levels: compile(() => {
      const { features, rows, state } = runBlock(head);
      const outputs = head.markov ? { features } : scoreOutputs(head.score(features), runtime);
      return { ...outputs, ...(state === undefined ? {} : { states: state }), rows };
    }),
    step: compile(() => buildStep(head)),
    chains: createChains(head, (length, choose) => buildChain(head, length, choose)),
  };
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
        windowEnd: head.windowEnd && Math.max(0, head.windowEnd - head.slots + 1),
        readPrefix: async (verified, cache) =>
          new DraftMemory({ ...head, cache }).readPrefix(verified, await programs.reader()),
      },
      draftLogits: (teacher, depth) => draftBlocks(head, teacher, depth),
    },
    async prepare(drafts = {}) {
      await Promise.all([
        programs.reader(),
        programs.levels(),
        programs.chains.prepare(drafts),
        ...(head.markov === undefined ? [] : [programs.step()]),
      ]);
    },
    startSession: (scheduler = runDirectly) => startSession(head, programs, scheduler),
  };
}

function buildChain(head: BlockHead, length: number, choose: TokenChooser): NamedTensors {
  const { features, root, rows, state: first } = runBlock(head);
  let token = root;
  let state = first;
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

function startSession(head: BlockDrafter, programs: BlockPrograms, scheduler: PassScheduler): DraftSession {
  const { runtime, vocabularies, sizes, slots, threshold, windowEnd } = head;
  const memory = new DraftMemory({ ...head, cache: new KvCache(sizes, runtime), scheduler });
  /** The program runs on the newest rows, which the root follows. */
  const run = async (
    program: LaneProgram,
    names: readonly string[],
    drawn: MixedValues = {},
  ): Promise<MixedValues> =>
    memory.draft(await programs.reader(), program, names, (inputs, start) => ({
      ...chainInputs(inputs, head, start, slots + 1),
      ...drawn,
    }));
  const runLevels = async (names: readonly string[]) => run(await programs.levels(), names);
  const scores = head.markov
    ? scoreSteps(head, head.markov, programs, scheduler, runLevels)
    : scoreAtOnce(runtime, vocabularies, runLevels);
  const limit = threshold === undefined ? -Infinity : Math.log(threshold / (1 - threshold));
  const cut = {
    output: 'confidences',
    countKept(logits: Float32Array): number {
      const end = logits.findIndex((logit) => logit < limit);
      return end < 0 ? logits.length : end;
    },
  };
  const draws = programs.chains.start(
    scheduler,
    (program, names, _, { drawn } = {}) => run(program, names, drawn),
    cutsChains(head) ? cut : undefined,
  );
  return {
    get room() {
      const length = Math.max(1, memory.length);
      if (windowEnd !== undefined) return length + slots <= windowEnd ? slots : 0;
      return head.reach - length;
    },
    observe(verified) {
      memory.observe(verified);
    },
    async catchUp() {
      await memory.catchUp(await programs.reader());
    },
    ...draftByLevels({ expand: scores.expand, ...draws }),
    suggest: () => noSuggestion,
    close() {
      scores.free();
      memory.close();
    },
  };
}

/** With a Markov head, one run gives the features of all levels, and another the scores of a level's nodes. */
function scoreSteps(
  { runtime, vocabularies, firstSlot }: BlockDrafter,
  { stateWidth }: MarkovHead,
  { step }: BlockPrograms,
  scheduler: PassScheduler,
  runLevels: (names: readonly string[]) => Promise<MixedValues>,
) {
  let features: RowBuffer | undefined; // of all levels
  const states = new NodeRows(runtime, stateWidth);
  const startsWithState = firstSlot > 0 && stateWidth > 0;
  const free = (): void => {
    features?.free();
    states.clear();
  };
  const expand: Expand = async (draft, nodes, want) => {
    const depth = draft.depths[nodes[0]!]!;
    if (depth === 0) {
      free();
      const outputs = await runLevels(['features', ...(startsWithState ? ['states'] : [])]);
      features = bufferOf(outputs, 'features');
      if (startsWithState) states.keep(bufferOf(outputs, 'states'), [draft.parents[nodes[0]!]!]);
    }
    const before = stateWidth === 0 ? undefined : states.gather(nodes.map((node) => draft.parents[node]!));
    const inputs = {
      feature: resident(features!.rows(depth, 1)),
      tokens: int32(nodes.map((node) => draft.tokens[node]!)),
      ...(before === undefined ? {} : { states: resident(before) }),
    };
    const names = [...scoreNames(want), ...(before === undefined ? [] : ['features'])];
    const outputs = await scheduler.run(await step(), { inputs }, names);
    before?.free();
    if (before !== undefined) states.keep(bufferOf(outputs, 'features'), nodes);
    return readScores(outputs, want, vocabularies);
  };
  return { expand, free };
}
