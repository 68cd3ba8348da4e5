/**
 * Drafting with features (EAGLE, EAGLE-3): position t pairs the state at t with token t + 1. Each cycle first reads
 * the true states of verified tokens, then its own predicted features.
 */
import { rowNumbers } from '../../model/attention-inputs.js';
import type { Tensor } from '../../graph/tensor.js';
import { gatherRows } from '../../graph/operations/indexing.js';
import { input } from '../../graph/operations/leaves.js';
import type { CausalModel } from '../../model/causal-model.js';
import type { ModelConfiguration } from '../../model/configuration.js';
import type { AttentionContext, AttentionMemory, KeyValueRows } from '../../model/decoder-layer.js';
import { KvCache } from '../../model/cache/kv-cache.js';
import type { LaneProgram, PassScheduler } from '../../model/lanes/lane-program.js';
import { runDirectly } from '../../model/lanes/lane-program.js';
import {
  declareAttention,
  declarePast,
  joinLanes,
  lanes,
  row,
  selectRows,
  stackRows,
} from '../../model/lanes/lane-graph.js';
import type { RotaryTable } from '../../model/rotary/rotary.js';
import type { MixedValues, NamedTensors } from '../../runtime/program.js';
import { bufferOf, int32, resident } from '../../runtime/program.js';
import type { RowBuffer } from '../../runtime/row-buffer.js';
import { DraftMemory } from '../programs/draft-memory.js';
import type { DraftSession, VerifiedTokens } from '../drafter.js';
import type { Vocabularies } from '../programs/scores.js';
import { readScores, scoreNames, scoreOutputs } from '../programs/scores.js';
import type { FusedPrograms } from '../programs/fused-drafts.js';
import { draftFused } from '../programs/fused-drafts.js';

export interface EagleStep {
  readonly features: Tensor; // [batch, position, hidden] what the next step is fed with
  readonly rows: KeyValueRows;
}

export interface EagleHead {
  readonly target: CausalModel;
  readonly configuration: ModelConfiguration;
  /** Hidden size, or all taps together. */
  readonly stateWidth: number;
  readonly vocabularies: Vocabularies;
  readonly rotary: RotaryTable;
  /** Its own table or the target's. [vocabulary, hidden] */
  readonly embedding: Tensor;
  /** Identity for EAGLE, projection for EAGLE-3. */
  fuse(states: Tensor): Tensor; // [batch, position, stateWidth] -> [batch, position, hidden]
  step(features: Tensor, embeddings: Tensor, context: AttentionContext, memory: AttentionMemory): EagleStep;
  /** features [..., hidden] -> [..., draft vocabulary] */
  score(features: Tensor): Tensor;
}

/** `verified` reads true states, `drafted` its own features; equal for EAGLE. */
export function buildEagleGraph(head: EagleHead, kind: 'verified' | 'drafted'): NamedTensors {
  const { configuration } = head;
  const width = kind === 'verified' ? head.stateWidth : configuration.hiddenSize;
  const states = joinLanes(input('states', [row, lanes, width]));
  const embeddings = joinLanes(gatherRows(head.embedding, input('tokens', [row, lanes], 'int32')));
  const [past] = declarePast(configuration);
  const features = kind === 'verified' ? head.fuse(states) : states;
  const step = head.step(features, embeddings, declareAttention(configuration), { past });
  const selected = selectRows(step.features);
  return {
    ...scoreOutputs(head.score(selected), head.target.runtime),
    features: selected,
    rows: stackRows([step.rows], configuration),
  };
}

export interface EaglePrograms {
  readonly verified: () => Promise<LaneProgram>;
  readonly drafted: () => Promise<LaneProgram>;
  readonly wholes: FusedPrograms;
}

function createMemory(head: EagleHead, cache: KvCache, scheduler: PassScheduler): DraftMemory {
  const { rotary, stateWidth } = head;
  return new DraftMemory({
    cache,
    rotary,
    stateWidth,
    scheduler,
    inputsOf: (states, tokens) => ({ states: resident(states), tokens: int32(tokens) }),
  });
}

export async function readEaglePrefix(
  head: EagleHead,
  programs: EaglePrograms,
  verified: VerifiedTokens,
  cache: KvCache,
): Promise<void> {
  await createMemory(head, cache, runDirectly).readPrefix(verified, await programs.verified());
}

export function startEagleSession(
  head: EagleHead,
  programs: EaglePrograms,
  scheduler: PassScheduler,
): DraftSession {
  const { configuration, target, vocabularies } = head;
  const { runtime } = target;
  const memory = createMemory(head, new KvCache(configuration, runtime), scheduler);
  const features = new Map<number, RowBuffer>(); // [node] -> [1, hidden]
  const forgetFeatures = (): void => {
    for (const feature of features.values()) feature.free();
    features.clear();
  };

  const keepFeatures = (outputs: MixedValues, nodes: readonly number[]): void => {
    const all = bufferOf(outputs, 'features');
    nodes.forEach((node, row) => features.set(node, all.rows(row, 1)));
  };

  return {
    // Angles continue past the length in config.json, as in the authors' code.
    get room() {
      return target.configuration.contextLength - memory.length;
    },
    observe(verified) {
      memory.observe(verified);
    },
    async catchUp() {
      await memory.catchUp(await programs.verified());
    },
    async expand(draft, nodes, want) {
      const names = [...scoreNames(want), 'features', 'rows'];
      const depth = draft.depths[nodes[0]!]!;
      if (depth === 0) {
        forgetFeatures();
        const last = await memory.read(await programs.verified(), names);
        keepFeatures(last, nodes);
        return readScores(last, want, vocabularies);
      }
      const program = await programs.drafted();
      const states = runtime.allocate(nodes.length, configuration.hiddenSize);
      nodes.forEach((node, row) => {
        states.write(features.get(draft.parents[node]!)!, row);
      });
      const outputs = await memory.run(
        program,
        {
          states: resident(states),
          tokens: int32(nodes.map((node) => draft.tokens[node]!)),
          select: rowNumbers(nodes.map((_, row) => row)),
          ...memory.attention.draftedInputs(draft, nodes, depth - 1),
        },
        names,
      );
      states.free();
      const rows = bufferOf(outputs, 'rows');
      memory.attention.keepDrafted(rows, nodes);
      rows.free();
      keepFeatures(outputs, nodes);
      return readScores(outputs, want, vocabularies);
    },
    ...draftFused(programs.wholes, { memory, rotary: head.rotary, scheduler, reader: programs.verified }),
    close() {
      forgetFeatures();
      memory.close();
    },
  };
}
