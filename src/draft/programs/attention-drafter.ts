/**
 * Drafters with attention and a cache of their own: draft models, EAGLE and EAGLE-3. A draft model reads tokens alone.
 * An EAGLE head pairs the target's state at t with token t + 1, and reads its own features where it drafts. Each cycle
 * first reads the verified rows.
 */
import { MistletoeError } from '../../core/errors.js';
import { lazily } from '../../core/promises.js';
import { rowNumbers } from '../../model/attention-inputs.js';
import { KvCache } from '../../model/cache/kv-cache.js';
import type { LaneProgram, PassScheduler } from '../../model/lanes/lane-program.js';
import { compileLanes, runDirectly } from '../../model/lanes/lane-program.js';
import { type MixedValues, bufferOf, int32, resident } from '../../runtime/program.js';
import { type Drafter, type DraftSession, noSuggestion } from '../drafter.js';
import type { Expand, TreeLevel, TreeSize } from '../tree/grow-tree.js';
import { draftByLevels } from '../tree/grow-tree.js';
import { buildChain, buildDynamicTree, buildLevel, feedDrafted, feedVerified } from './attention-graphs.js';
import type { AttentionHead, FedRows } from './attention-head.js';
import { chainInputs, createChains, type Chains } from './chain-program.js';
import { DraftMemory } from './draft-memory.js';
import { draftTeacherForced } from './teacher-forcing.js';
import { readScores, scoreNames } from './scores.js';
import { NodeRows } from './states.js';
import { createTreeCompiler, readTree, treeInputs, treeNames } from './tree-program.js';

interface HeadPrograms {
  readonly verified: () => Promise<LaneProgram>;
  readonly drafted: () => Promise<LaneProgram>;
  readonly chains: Chains;
  readonly tree: (size: TreeSize) => Promise<LaneProgram>;
}

export interface AttentionSession extends DraftSession {
  readonly expand: Expand;
  /** Keeps the first `kept` tokens of the text and reads these after them; only if it reads tokens alone. */
  replaceText(kept: number, tokens: readonly number[]): void;
}

export interface AttentionDrafter extends Drafter {
  startSession(scheduler?: PassScheduler): AttentionSession;
}

export function createAttentionDrafter(head: AttentionHead): AttentionDrafter {
  const { runtime, weights, sizes, rotary, vocabularies, window, windowEnd } = head;
  const { system, name, reads, taps, parameterCount } = head;
  const compile = (feed: (head: AttentionHead) => FedRows): (() => Promise<LaneProgram>) =>
    lazily(() => compileLanes(runtime, buildLevel(head, feed(head)), weights));
  const verified = compile(feedVerified);
  const readsTokens = head.featureWidth === 0 && head.mask === undefined;
  const programs: HeadPrograms = {
    verified,
    drafted: readsTokens ? verified : compile(feedDrafted),
    chains: createChains(head, (length, choose) => buildChain(head, length, choose)),
    tree: createTreeCompiler(runtime, weights, (size) => buildDynamicTree(head, size)),
  };
  return {
    system,
    name,
    reads,
    taps,
    parameterCount,
    maximumDepth: Infinity,
    vocabularySize: vocabularies.draftSize,
    async prepare(drafts = {}) {
      const trees = (drafts.trees ?? []).map(programs.tree);
      await Promise.all([verified(), programs.drafted(), programs.chains.prepare(drafts), ...trees]);
    },
    startSession: (scheduler = runDirectly) => startSession(head, programs, scheduler),
    graph: {
      weights,
      targetTokens: vocabularies.targetTokens,
      attention: {
        sizes,
        rotary,
        window,
        windowEnd,
        async readPrefix(known, cache) {
          const unknown = findUnknown(head, known.tokens);
          if (unknown !== undefined) throw unknownToken(head, unknown);
          head.requireContext?.(cache.length + known.tokens.length);
          await new DraftMemory({ ...head, cache }).readPrefix(known, await verified());
        },
      },
      draftLogits: (teacher, depth) => draftTeacherForced(head, teacher, depth),
    },
  };
}

function startSession(
  head: AttentionHead,
  programs: HeadPrograms,
  scheduler: PassScheduler,
): AttentionSession {
  const { runtime, vocabularies, featureWidth, windowEnd } = head;
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

  const expand: Expand = async (draft, nodes, want) => {
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
  };
  const draws = programs.chains.start(
    scheduler,
    async (program, names, length, { drawn = {}, into } = {}) => {
      const behind = (inputs: MixedValues, start: number) => ({
        ...chainInputs(inputs, head, start, length),
        ...drawn,
      });
      const kept = scheduler.isAlone ? into : undefined;
      return memory.draft(await readVerifiedBy(), program, names, behind, kept);
    },
  );
  const tree = async (size: TreeSize): Promise<readonly TreeLevel[]> => {
    const program = await programs.tree(size);
    const behind = (inputs: MixedValues, start: number) => treeInputs(inputs, head, start, size);
    return readTree(await memory.draft(await readVerifiedBy(), program, treeNames(size), behind), size);
  };

  return {
    get room() {
      return Math.min(head.reach, windowEnd ?? Infinity) - Math.max(1, memory.length); // the root takes a place before it is known, too
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
    expand,
    ...draftByLevels({ expand, ...draws, tree }),
    suggest: () => noSuggestion,
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
