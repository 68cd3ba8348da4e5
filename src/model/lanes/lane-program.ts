/**
 * A program that several sequences run together. Each gives its inputs as if alone; a run merges the lanes and splits
 * the outputs. A sequence's lane is that of its cache; programs without a past assign lanes in order.
 * Other forms of the program read a shared prefix in place (cache-pool.ts), or keep the keys and values of one sequence
 * where its attention reads them (head-rows.ts).
 */
import { lazily } from '../../core/promises.js';
import { bareSymbol, type Shape } from '../../graph/dimension.js';
import type {
  Destination,
  MixedValues,
  NamedTensors,
  Program,
  ResidentValue,
  Runtime,
  TensorValue,
} from '../../runtime/program.js';
import { bufferOf } from '../../runtime/program.js';
import { listInputs } from '../../runtime/program-values.js';
import type { RowBuffer } from '../../runtime/row-buffer.js';
import type { WeightStore } from '../../runtime/weights.js';
import type { CombinedInput } from '../attention-inputs.js';
import { gatherCaches, type CachePool, type SharedPrefix } from '../cache/cache-pool.js';
import type { KvCache } from '../cache/kv-cache.js';
import { residentOutputs } from './lane-graph.js';
import type { LanePlaces } from './lane-values.js';
import {
  mergeBuffers,
  mergeMasks,
  mergeRows,
  mergeSelections,
  takeBufferLane,
  takeLane,
} from './lane-values.js';

/** The step that a sequence made together with others. */
export interface BatchStep {
  /** Sequences that share a pass have the same number. */
  readonly pass: number;
  readonly batchSize: number;
  /** Rows of the longest sequence. */
  readonly rows: number;
  /** Since the previous target pass, without prompts. */
  readonly stepMs: number;
}

export interface PassScheduler {
  run(program: LaneProgram, run: LaneRun, outputs: readonly string[]): Promise<MixedValues>;
  /** Whether no other sequence is running: only then may passes start ahead of their results. */
  readonly isAlone: boolean;
}

export const runDirectly: PassScheduler = {
  isAlone: true,
  async run(program, run, outputs) {
    const [result] = await program.run([run], [outputs]);
    return result!;
  },
};

export interface LaneRun {
  /** Without the axis of lanes. */
  readonly inputs: MixedValues;
  /** Absent for programs without a past. */
  readonly cache?: KvCache | undefined;
  /** [output] Where outputs for the host go instead, if the run has a pass of its own. */
  readonly into?: Readonly<Record<string, RowBuffer | 'runtime'>> | undefined;
}

export class LaneProgram {
  /** [output] Axis of lanes, and the input with as many rows, if any. */
  private readonly outputs: ReadonlyMap<string, { readonly axis: number; readonly like: string | undefined }>;

  constructor(
    private readonly runtime: Runtime,
    graph: NamedTensors,
    private readonly forms: ProgramForms,
  ) {
    const counting = new Map<string, string>(); // symbol of a row axis -> an input that has it
    for (const { name, shape } of listInputs(graph)) {
      const rows = bareSymbol(shape[0]!);
      if (rows !== undefined && laneAxis(shape) === 1) counting.set(rows, name);
    }
    this.outputs = new Map(
      Object.entries(graph).map(([name, { shape }]) => {
        const axis = laneAxis(shape);
        return [name, { axis, like: counting.get(bareSymbol(shape[axis - 1]!) ?? '') }];
      }),
    );
  }

  /** Runs can be combined without copying only if they share it. */
  prefixOf({ cache }: LaneRun): SharedPrefix | undefined {
    return this.forms.afterPrefix === undefined ? undefined : cache?.keptPrefix;
  }

  /**
   * Outputs on the device belong to the caller.
   * @param wanted [run] names of outputs
   */
  async run(
    runs: readonly LaneRun[],
    wanted: readonly (readonly string[])[],
  ): Promise<readonly MixedValues[]> {
    const prefix = this.commonPrefix(runs);
    const { pool, places } = placeRuns(runs, prefix !== undefined);
    const merged = this.mergeInputs(runs, places);
    const inputs = { ...merged };
    const past = Math.max(...places.pastOf);
    const isAlone = this.forms.alone !== undefined && prefix === undefined && pool?.lanes === 1;
    if (isAlone) pool.addHeads(inputs, past, runs[0]!.inputs.mask!.shape[0]!);
    else pool?.addViews(inputs, 'past', past);
    prefix?.pool.addViews(inputs, 'prefix', Math.max(...places.prefixOf!));
    const form = isAlone ? 'alone' : prefix === undefined ? 'lanes' : 'afterPrefix';
    const program = await this.forms[form]!();
    const names = [...new Set(wanted.flat())];
    const into = places.lanes === 1 ? runs[0]!.into : undefined;
    const destinations = names.map((name): [string, Destination] => [
      name,
      into?.[name] ?? (residentOutputs.has(name) ? 'runtime' : 'host'),
    ]);
    const outputs = await program.run(inputs, Object.fromEntries(destinations)).finally(() => {
      freeMerged(merged, runs);
    });
    if (isAlone && outputs.rows !== undefined) pool.noteHeads(bufferOf(outputs, 'rows'), past);
    const handedOut = new Set<RowBuffer>();
    const results = runs.map((run, index) => {
      const own: Record<string, TensorValue | ResidentValue> = {};
      for (const name of wanted[index]!) {
        const { axis, like } = this.outputs.get(name)!;
        const count = like === undefined ? undefined : run.inputs[like]!.shape[0]!;
        const pick = { axis, lane: places.laneOf[index]!, count };
        const value = outputs[name]!;
        if ('data' in value) own[name] = takeLane(value, pick);
        else {
          const taken = takeBufferLane(value, pick, this.runtime);
          handedOut.add(taken.buffer);
          own[name] = taken;
        }
      }
      return own;
    });
    for (const value of Object.values(outputs))
      if ('buffer' in value && !handedOut.has(value.buffer)) value.buffer.free();
    return results;
  }

  private commonPrefix(runs: readonly LaneRun[]): SharedPrefix | undefined {
    const [first] = runs as [LaneRun];
    const prefix = this.prefixOf(first);
    if (runs.length > 1) return runs.every((run) => this.prefixOf(run) === prefix) ? prefix : undefined;
    // A single run keeps its prefix: others of it may come back.
    return this.forms.afterPrefix !== undefined && first.cache?.content === 'rest'
      ? first.cache.prefix
      : undefined;
  }

  private mergeInputs(
    runs: readonly LaneRun[],
    places: LanePlaces,
  ): Record<string, TensorValue | ResidentValue> {
    const merged: Record<string, TensorValue | ResidentValue> = {};
    for (const name of Object.keys(runs[0]!.inputs)) {
      const values = runs.map(({ inputs }) => inputs[name]!);
      const [first] = values as [ResidentValue | TensorValue | CombinedInput];
      if ('buffer' in first) {
        merged[name] = mergeBuffers(values as readonly ResidentValue[], places, this.runtime);
        continue;
      }
      const combine = 'combine' in first ? first.combine : 'rows';
      const merge = { rows: mergeRows, masks: mergeMasks, 'row-numbers': mergeSelections }[combine];
      merged[name] = merge(values as readonly TensorValue[], places);
    }
    return merged;
  }
}

interface ProgramForms {
  readonly lanes: () => Promise<Program>;
  /** For lanes with a common prefix. */
  readonly afterPrefix?: (() => Promise<Program>) | undefined;
  /** For one sequence, whose keys and values are read and written in place. */
  readonly alone?: (() => Promise<Program>) | undefined;
}

interface OtherGraphs {
  readonly afterPrefix?: (() => NamedTensors) | undefined;
  readonly alone?: (() => NamedTensors) | undefined;
}

/** The form that a single sequence uses is compiled now, the others on first use. */
export async function compileLanes(
  runtime: Runtime,
  graph: NamedTensors,
  weights: readonly WeightStore[],
  { afterPrefix, alone }: OtherGraphs = {},
): Promise<LaneProgram> {
  const compile = (build: () => NamedTensors): (() => Promise<Program>) =>
    lazily(() => runtime.compile(build(), weights, { packed: true }));
  const forms: ProgramForms = {
    lanes: compile(() => graph),
    afterPrefix: afterPrefix && compile(afterPrefix),
    alone: alone && compile(alone),
  };
  await (forms.alone ?? forms.lanes)();
  return new LaneProgram(runtime, graph, forms);
}

function placeRuns(
  runs: readonly LaneRun[],
  isAfterPrefix: boolean,
): { readonly pool: CachePool | undefined; readonly places: LanePlaces } {
  const caches = runs.flatMap(({ cache }) => (cache === undefined ? [] : [cache]));
  const content = isAfterPrefix ? 'rest' : 'whole';
  const [first] = caches;
  // Alone and without own rows, it reads the prefix as its past.
  const isReader = caches.length === 1 && first!.content === undefined;
  const pool = first === undefined ? undefined : isReader ? first.pool : gatherCaches(caches, content);
  return {
    pool,
    places: {
      lanes: pool?.lanes ?? runs.length,
      laneOf: runs.map(({ cache }, index) => cache?.lane ?? index),
      pastOf: runs.map(({ cache }) => (cache === undefined ? 0 : cache.count(content) + 1)),
      prefixOf: isAfterPrefix ? caches.map(({ prefixLength }) => prefixLength + 1) : undefined,
    },
  };
}

const laneAxis = (shape: Shape): number => shape.findIndex((dimension) => bareSymbol(dimension) === 'lanes');

/** With one lane, inputs are the sequence's own and are not freed. */
function freeMerged(merged: MixedValues, [first]: readonly LaneRun[]): void {
  for (const [name, value] of Object.entries(merged)) {
    const own = first!.inputs[name]!;
    if ('buffer' in value && 'buffer' in own && value.buffer !== own.buffer) value.buffer.free();
  }
}
