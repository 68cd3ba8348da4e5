/**
 * Drafters with attention and a cache of their own: draft models, EAGLE and EAGLE-3. A draft model reads tokens alone.
 * An EAGLE head pairs the target's state at t with token t + 1, and reads its own features where it drafts. Each cycle
 * first reads the verified rows.
 */
import { MistletoeError } from '../../core/errors.js';
import { lazily } from '../../core/promises.js';
import { gatherRows } from '../../graph/operations/indexing.js';
import { input, type Tensor } from '../../graph/tensor.js';
import { rowNumbers } from '../../model/attention-inputs.js';
import { KvCache } from '../../model/cache/kv-cache.js';
import { joinRows } from '../../model/decoder.js';
import * as lane from '../../model/lanes/lane-graph.js';
import type { LaneProgram, PassScheduler } from '../../model/lanes/lane-program.js';
import { compileLanes, runDirectly } from '../../model/lanes/lane-program.js';
import { type MixedValues, type NamedTensors, bufferOf, int32, resident } from '../../runtime/program.js';
import type { DraftGraph, Drafter, DraftSession } from '../drafter.js';
import { type AttentionHead, fillWithMasks, readTogether, type MaskRows } from './attention-head.js';
import { DraftMemory } from './draft-memory.js';
import type { FusedPrograms, VerifiedGraph } from './fused-drafts.js';
import { createFusedPrograms, draftFused, prepareFused } from './fused-drafts.js';
import { NodeRows } from './states.js';
import { readScores, scoreNames, scoreOutputs } from './scores.js';

interface HeadPrograms {
  readonly verified: () => Promise<LaneProgram>;
  readonly drafted: () => Promise<LaneProgram>;
  readonly fused: FusedPrograms;
}

export function createAttentionDrafter(
  head: AttentionHead,
  described: Pick<Drafter, 'system' | 'name' | 'reads' | 'taps' | 'parameterCount'>,
  draftLogits: DraftGraph['draftLogits'],
): Drafter {
  const { runtime, weights, sizes, rotary, vocabularies, window } = head;
  const compile = (feed: (head: AttentionHead) => Fed): (() => Promise<LaneProgram>) =>
    lazily(() => compileLanes(runtime, 'draft', buildGraph(head, feed(head)), weights));
  const verified = compile(feedVerified);
  const readsTokens = head.featureWidth === 0 && head.mask === undefined;
  const drafted = readsTokens ? verified : compile(feedDrafted);
  const { headSize } = sizes;
  const fused = createFusedPrograms(runtime, weights, { vocabularies, headSize, window }, () =>
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
          const unknown = findUnknown(head, known.tokens);
          if (unknown !== undefined) throw unknownToken(head, unknown);
          head.requireContext?.(cache.length + known.tokens.length);
          await new DraftMemory({ ...head, cache }).readPrefix(known, await verified());
        },
      },
      draftLogits,
    },
  };
}

interface Fed {
  readonly embeddings: Tensor; // [row, lanes, hidden]
  readonly features: Tensor | undefined; // [1, row * lanes, hidden]
}

const embedGiven = ({ embedding }: AttentionHead): Tensor =>
  gatherRows(embedding, input('tokens', [lane.row, lane.lanes], 'int32'));

const declareStates = (width: number): Tensor =>
  lane.joinLanes(input('states', [lane.row, lane.lanes, width]));

function feedVerified(head: AttentionHead): Fed {
  const { stateWidth } = head;
  const features = stateWidth === 0 ? undefined : head.fuse(declareStates(stateWidth));
  return { embeddings: embedGiven(head), features };
}

function feedDrafted(head: AttentionHead): Fed {
  const { mask, featureWidth } = head;
  if (mask === undefined) return { embeddings: embedGiven(head), features: declareStates(featureWidth) };
  const masks = fillWithMasks(head, mask, [lane.row, lane.lanes]);
  return { embeddings: masks.embeddings, features: joinFeatures(masks) };
}

const joinFeatures = ({ features }: MaskRows): Tensor | undefined => features && lane.joinLanes(features);

/** One pass over rows that are fed with these features. */
function buildGraph(head: AttentionHead, fed: Fed): NamedTensors {
  const context = lane.declareAttention(head.sizes);
  const past = lane.declarePast(head.sizes);
  const step = head.step(lane.joinLanes(fed.embeddings), fed.features, context, { past });
  const selected = lane.selectRows(step.features);
  return {
    ...scoreOutputs(head.score(selected), head.runtime),
    ...(head.featureWidth === 0 ? {} : { features: selected }),
    rows: lane.stackRows(step.rows, head.sizes),
  };
}

/** Verified rows first, then drafted ones. */
function readVerified(head: AttentionHead): VerifiedGraph {
  const { mask } = head;
  const verified = feedVerified(head);
  const context = lane.declareAttention(head.sizes);
  const past = lane.declarePast(head.sizes);
  const first = head.step(lane.joinLanes(verified.embeddings), verified.features, context, { past });
  let earlier = first.rows;
  let features = lane.selectRows(first.features, 1);
  return {
    context,
    rows: lane.stackRows(first.rows, head.sizes),
    root: head.score(features),
    next(tokens, own, arrange) {
      const fed = mask === undefined ? undefined : fillWithMasks(head, mask, tokens.shape);
      const step = head.step(
        lane.joinLanes(fed?.embeddings ?? gatherRows(head.embedding, tokens)),
        fed === undefined ? verified.features && lane.joinLanes(arrange(features)) : joinFeatures(fed),
        own,
        { past, earlier },
      );
      earlier = earlier.map((before, layer) => joinRows(before, step.rows[layer]!));
      features = lane.partLanes(step.features, tokens.shape[0]);
      return head.score(features);
    },
    together:
      mask === undefined
        ? undefined
        : (levels) => readTogether(head, mask, { ...verified, context, past }, levels),
  };
}

function startSession(head: AttentionHead, programs: HeadPrograms, scheduler: PassScheduler): DraftSession {
  const { runtime, vocabularies, rotary, window, featureWidth } = head;
  const memory = new DraftMemory({ ...head, cache: new KvCache(head.sizes, runtime), scheduler });
  let unknown: number | undefined; // a token of the text that it has no embedding for
  const readVerifiedBy = (): Promise<LaneProgram> => {
    if (unknown !== undefined) throw unknownToken(head, unknown);
    return programs.verified();
  };
  const features = new NodeRows(runtime, featureWidth);
  const keepFeatures = (outputs: MixedValues, nodes: readonly number[]): void => {
    if (featureWidth > 0) features.keep(bufferOf(outputs, 'features'), nodes);
  };

  return {
    get room() {
      return head.reach - Math.max(1, memory.length); // the root takes a place before it is known, too
    },
    observe(verified) {
      unknown ??= findUnknown(head, [...verified.tokens, verified.next]);
      memory.observe(verified);
    },
    replaceText(kept, tokens) {
      unknown ??= findUnknown(head, tokens);
      memory.replaceText(kept, tokens);
    },
    async catchUp() {
      if (unknown === undefined) await memory.catchUp(await programs.verified()); // else the first draft fails
    },
    async expand(draft, nodes, want) {
      const names = [...scoreNames(want), 'rows', ...(featureWidth === 0 ? [] : ['features'])];
      const depth = draft.depths[nodes[0]!]!;
      if (depth === 0) {
        features.clear();
        const last = await memory.read(await readVerifiedBy(), names);
        keepFeatures(last, nodes);
        return readScores(last, want, vocabularies);
      }
      const program = await programs.drafted();
      const states =
        featureWidth === 0 ? undefined : features.gather(nodes.map((node) => draft.parents[node]!));
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
    ...draftFused(programs.fused, { memory, rotary, window, scheduler, reader: readVerifiedBy }),
    close() {
      features.clear();
      memory.close();
    },
  };
}

function findUnknown({ embedding }: AttentionHead, tokens: ArrayLike<number>): number | undefined {
  const [vocabularySize] = embedding.shape as [number];
  return Array.from(tokens).find((token) => token >= vocabularySize);
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
