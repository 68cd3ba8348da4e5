/**
 * Drafters with attention and a cache of their own: draft models, EAGLE and EAGLE-3. A draft model reads tokens alone.
 * An EAGLE head pairs the target's state at t with token t + 1, and reads its own features where it drafts. Each cycle
 * first reads the verified rows.
 */
import { MistletoeError } from '../../core/errors.js';
import { lazily } from '../../core/lazy.js';
import { gatherRows } from '../../graph/operations/indexing.js';
import { input } from '../../graph/operations/leaves.js';
import type { Tensor } from '../../graph/tensor.js';
import { rowNumbers } from '../../model/attention-inputs.js';
import type { CacheSizes } from '../../model/cache/cache-pool.js';
import { KvCache } from '../../model/cache/kv-cache.js';
import type { AttentionContext, AttentionMemory, KeyValueRows } from '../../model/decoder.js';
import { joinRows } from '../../model/decoder.js';
import * as lane from '../../model/lanes/lane-graph.js';
import type { LaneProgram, PassScheduler } from '../../model/lanes/lane-program.js';
import { compileLanes, runDirectly } from '../../model/lanes/lane-program.js';
import type { RotaryTable } from '../../model/rotary/rotary.js';
import type { MixedValues, NamedTensors, Runtime } from '../../runtime/program.js';
import { bufferOf, int32, resident } from '../../runtime/program.js';
import type { RowBuffer } from '../../runtime/row-buffer.js';
import type { WeightStore } from '../../runtime/weights.js';
import type { DraftGraph, Drafter, DraftSession, GrowingDraft } from '../drafter.js';
import { DraftMemory } from './draft-memory.js';
import type { FusedPrograms, VerifiedGraph } from './fused-drafts.js';
import { createFusedPrograms, draftFused, prepareFused } from './fused-drafts.js';
import { readScores, scoreNames, scoreOutputs, type Vocabularies } from './scores.js';

export interface HeadStep {
  readonly features: Tensor; // [batch, position, hidden] what the next step is fed with
  readonly rows: readonly KeyValueRows[]; // [layer]
}

export interface HeadMemory extends Pick<AttentionMemory, 'drafted'> {
  readonly past: readonly KeyValueRows[] | undefined; // [layer]
  readonly earlier?: readonly KeyValueRows[] | undefined; // [layer]
}

export interface AttentionHead {
  /** For messages. */
  readonly title: string;
  readonly runtime: Runtime;
  /** Its own, and those that it borrows from the target. */
  readonly weights: readonly WeightStore[];
  readonly sizes: CacheSizes;
  /** Positions that it can read. */
  readonly reach: number;
  readonly window?: number | undefined;
  /** Of the target's states that it reads; 0 if it reads tokens alone. */
  readonly stateWidth: number;
  /** Of the features that it is fed with while drafting; 0 if it reads tokens alone. */
  readonly featureWidth: number;
  readonly vocabularies: Vocabularies;
  readonly rotary: RotaryTable;
  readonly embedding: Tensor; // [vocabulary, hidden]
  fuse(states: Tensor): Tensor; // [batch, position, stateWidth] -> [batch, position, hidden]
  /** `features` is undefined if it reads tokens alone. */
  step(
    embeddings: Tensor, // [batch, position, hidden]
    features: Tensor | undefined, // [batch, position, hidden]
    context: AttentionContext,
    memory: HeadMemory,
  ): HeadStep;
  /** features [..., hidden] -> [..., draft vocabulary] */
  score(features: Tensor): Tensor;
  /** Throws if a prefix is longer than its context. */
  requireContext?(positions: number): void;
}

interface HeadPrograms {
  /** Reads the target's states. */
  readonly verified: () => Promise<LaneProgram>;
  /** Reads its own features. */
  readonly drafted: () => Promise<LaneProgram>;
  readonly fused: FusedPrograms;
}

export function createAttentionDrafter(
  head: AttentionHead,
  described: Pick<Drafter, 'system' | 'name' | 'reads' | 'taps' | 'parameterCount'>,
  draftLogits: DraftGraph['draftLogits'],
): Drafter {
  const { runtime, weights, sizes, rotary, vocabularies, window } = head;
  const compile = (width: number, fuse: (states: Tensor) => Tensor): (() => Promise<LaneProgram>) =>
    lazily(() => compileLanes(runtime, 'draft', buildGraph(head, width, fuse), weights));
  const verified = compile(head.stateWidth, (states) => head.fuse(states));
  const drafted = head.featureWidth === 0 ? verified : compile(head.featureWidth, (features) => features);
  const fused = createFusedPrograms(runtime, weights, { vocabularies, headSize: sizes.headSize }, () =>
    readVerified(head),
  );
  return {
    ...described,
    maximumDepth: Infinity,
    vocabularySize: vocabularies.draftSize,
    async prepare(drafts) {
      await Promise.all([verified(), drafted(), prepareFused(fused, drafts)]);
    },
    startSession: (scheduler = runDirectly) => startSession(head, { verified, drafted, fused }, scheduler),
    graph: {
      weights,
      targetTokens: vocabularies.targetTokens,
      attention: {
        sizes,
        rotary,
        window,
        async readPrefix(known, cache) {
          requireKnown(head, known.tokens);
          head.requireContext?.(cache.length + known.tokens.length);
          await createMemory(head, cache, runDirectly).readPrefix(known, await verified());
        },
      },
      draftLogits,
    },
  };
}

const embed = ({ embedding }: AttentionHead, tokens: Tensor): Tensor =>
  lane.joinLanes(gatherRows(embedding, tokens));

const declareTokens = (): Tensor => input('tokens', [lane.row, lane.lanes], 'int32');

const declareStates = (width: number): Tensor | undefined =>
  width === 0 ? undefined : lane.joinLanes(input('states', [lane.row, lane.lanes, width]));

/** One pass over states or features of this width. */
function buildGraph(head: AttentionHead, width: number, fuse: (states: Tensor) => Tensor): NamedTensors {
  const states = declareStates(width);
  const context = lane.declareAttention(head.sizes);
  const past = lane.declarePast(head.sizes);
  const step = head.step(embed(head, declareTokens()), states && fuse(states), context, { past });
  const selected = lane.selectRows(step.features);
  return {
    ...scoreOutputs(head.score(selected), head.runtime),
    ...(width === 0 ? {} : { features: selected }),
    rows: lane.stackRows(step.rows, head.sizes),
  };
}

/** Verified rows first, then drafted ones. */
function readVerified(head: AttentionHead): VerifiedGraph {
  const states = declareStates(head.stateWidth);
  const context = lane.declareAttention(head.sizes);
  const past = lane.declarePast(head.sizes);
  const first = head.step(embed(head, declareTokens()), states && head.fuse(states), context, { past });
  let earlier = first.rows;
  let features = lane.selectRows(first.features, 1);
  return {
    context,
    rows: lane.stackRows(first.rows, head.sizes),
    root: head.score(features),
    next(tokens, own, arrange) {
      const fed = states && lane.joinLanes(arrange(features));
      const step = head.step(embed(head, tokens), fed, own, { past, earlier });
      earlier = earlier.map((before, layer) => joinRows(before, step.rows[layer]!));
      features = lane.partLanes(step.features, tokens.shape[0]);
      return head.score(features);
    },
  };
}

function createMemory(head: AttentionHead, cache: KvCache, scheduler: PassScheduler): DraftMemory {
  const { rotary, stateWidth } = head;
  const inputsOf = (states: RowBuffer, tokens: Int32Array): MixedValues =>
    stateWidth === 0 ? { tokens: int32(tokens) } : { states: resident(states), tokens: int32(tokens) };
  return new DraftMemory({ cache, rotary, stateWidth, scheduler, inputsOf });
}

function startSession(head: AttentionHead, programs: HeadPrograms, scheduler: PassScheduler): DraftSession {
  const { runtime, vocabularies, rotary, featureWidth } = head;
  const memory = createMemory(head, new KvCache(head.sizes, runtime), scheduler);
  let unknown: number | undefined; // a token of the text that it has no embedding for
  const readVerifiedBy = (): Promise<LaneProgram> => {
    if (unknown !== undefined) throw unknownToken(head, unknown);
    return programs.verified();
  };
  const features = new Map<number, RowBuffer>(); // [node] -> [1, hidden]
  const keepFeatures = (outputs: MixedValues, nodes: readonly number[]): void => {
    if (featureWidth === 0) return;
    const all = bufferOf(outputs, 'features');
    nodes.forEach((node, row) => features.set(node, all.rows(row, 1)));
  };
  /** Of the nodes' parents. */
  const gatherFeatures = ({ parents }: GrowingDraft, nodes: readonly number[]): RowBuffer => {
    const gathered = runtime.allocate(nodes.length, featureWidth);
    nodes.forEach((node, row) => {
      gathered.write(features.get(parents[node]!)!, row);
    });
    return gathered;
  };
  const forgetFeatures = (): void => {
    for (const feature of features.values()) feature.free();
    features.clear();
  };

  return {
    get room() {
      return head.reach - Math.max(1, memory.length); // the root takes a place before it is known, too
    },
    observe(verified) {
      unknown ??= findUnknown(head, [...verified.tokens, verified.next]);
      memory.observe(verified);
    },
    async catchUp() {
      if (unknown === undefined) await memory.catchUp(await programs.verified()); // else the first draft fails
    },
    async expand(draft, nodes, want) {
      const names = [...scoreNames(want), 'rows', ...(featureWidth === 0 ? [] : ['features'])];
      const depth = draft.depths[nodes[0]!]!;
      if (depth === 0) {
        forgetFeatures();
        const last = await memory.read(await readVerifiedBy(), names);
        keepFeatures(last, nodes);
        return readScores(last, want, vocabularies);
      }
      const program = await programs.drafted();
      const states = featureWidth === 0 ? undefined : gatherFeatures(draft, nodes);
      const outputs = await memory.run(
        program,
        {
          ...(states === undefined ? {} : { states: resident(states) }),
          tokens: int32(nodes.map((node) => draft.tokens[node]!)),
          select: rowNumbers(nodes.map((_, row) => row)),
          ...memory.attention.draftedInputs(draft, nodes, depth - 1),
        },
        names,
      );
      states?.free();
      const rows = bufferOf(outputs, 'rows');
      memory.attention.keepDrafted(rows, nodes);
      rows.free();
      keepFeatures(outputs, nodes);
      return readScores(outputs, want, vocabularies);
    },
    ...draftFused(programs.fused, { memory, rotary, scheduler, reader: readVerifiedBy }),
    close() {
      forgetFeatures();
      memory.close();
    },
  };
}

function findUnknown({ embedding }: AttentionHead, tokens: ArrayLike<number>): number | undefined {
  const [vocabularySize] = embedding.shape as [number];
  return Array.from(tokens).find((token) => token >= vocabularySize);
}

function requireKnown(head: AttentionHead, tokens: ArrayLike<number>): void {
  const unknown = findUnknown(head, tokens);
  if (unknown !== undefined) throw unknownToken(head, unknown);
}

function unknownToken({ title, embedding }: AttentionHead, token: number): MistletoeError {
  const [vocabularySize] = embedding.shape as [number];
  return new MistletoeError(
    'drafter',
    `The text holds token ${token}; ${title} knows ${vocabularySize} tokens.`,
    {
      hint: 'Only padding of the target has such ids: they stand for no text, and no draft model of its tokenizer knows them.',
    },
  );
}
