/**
 * A program that several sequences run together. Each has a lane: its inputs are given as if it were alone, and a run
 * lays those of all lanes side by side and takes their outputs apart again. Which lane is a sequence's follows from where
 * its cache lies; a program without a past gives them lanes in order. One sequence alone is the case of one lane.
 *
 * A program may have a second form, compiled when it is first needed, for sequences with a common stem (stem.ts): it
 * reads that in place, once for all lanes. Without it, or where keeping a stem does not pay, lanes hold all rows.
 */
import { lazily } from '../../core/lazy.js';
import type { Shape } from '../../graph/dimension.js';
import { bareSymbol } from '../../graph/dimension.js';
import type {
  Destination,
  MixedValues,
  NamedTensors,
  Program,
  ResidentValue,
  Runtime,
  TensorValue,
} from '../../runtime/program.js';
import type { WeightStore } from '../../runtime/weights.js';
import type { CachePool } from '../cache/cache-pool.js';
import { gatherCaches } from '../cache/cache-pool.js';
import type { KvCache } from '../cache/kv-cache.js';
import type { LanePlaces } from './lane-values.js';
import {
  mergeBuffers,
  mergeMasks,
  mergeRows,
  mergeSelections,
  takeBufferLane,
  takeLane,
} from './lane-values.js';
import type { Stem } from '../cache/shared-prefix.js';

/** One sequence's part of a run. */
export interface LaneRun {
  /** Shapes without the axis of lanes. */
  readonly inputs: MixedValues;
  /** What its `past` is; a program without one has none. */
  readonly cache?: KvCache | undefined;
}

/** `draw` and `draft` programs run before the target's pass of the same step. */
export type Stage = 'draw' | 'draft' | 'verify';

/** Outputs that nobody but programs reads again: they stay with the runtime. */
const staying: ReadonlySet<string> = new Set(['rows', 'features', 'taps', 'scores', 'distributions']);

/** Inputs that are more than rows side by side. */
const merging: ReadonlyMap<string, typeof mergeRows> = new Map([
  ['mask', mergeMasks],
  ['chainMask', mergeMasks],
  ['select', mergeSelections],
  ['treePlaces', mergeSelections],
]);

export class LaneProgram {
  /** [output] its axis of lanes, and the input that has as many rows; none where the number is fixed. */
  private readonly outputs: ReadonlyMap<string, { readonly axis: number; readonly like: string | undefined }>;

  constructor(
    readonly stage: Stage,
    private readonly program: Program,
    private readonly runtime: Runtime,
    graph: NamedTensors,
    private readonly behindStem?: () => Promise<Program>,
  ) {
    const counting = new Map<string, string>(); // symbol of a row axis -> an input that has it
    for (const { name, shape } of program.inputs) {
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

  /** The stem that a run reads in place: only runs of the same stem, or of none, go together without copying it. */
  stemOf({ cache }: LaneRun): Stem | undefined {
    return this.behindStem === undefined ? undefined : cache?.keptStem;
  }

  /** Outputs of each run, as if it were alone; rows, features and taps stay with the runtime. */
  async run(runs: readonly LaneRun[], wanted: readonly string[]): Promise<readonly MixedValues[]> {
    const stem = this.commonStem(runs);
    const program = stem === undefined ? this.program : await this.behindStem!();
    const { pool, places } = placeRuns(runs, stem !== undefined);
    const inputs = this.mergeInputs(runs, places);
    addViews(inputs, 'past', pool, places.pastOf);
    addViews(inputs, 'stem', stem?.pool, places.stemOf);
    const destinations = wanted.map((name): [string, Destination] => [
      name,
      staying.has(name) ? 'runtime' : 'host',
    ]);
    const outputs = await program.run(inputs, Object.fromEntries(destinations));
    return runs.map((run, index) => {
      const own: Record<string, TensorValue | ResidentValue> = {};
      for (const name of wanted) {
        const { axis, like } = this.outputs.get(name)!;
        const count = like === undefined ? undefined : run.inputs[like]!.shape[0]!;
        const pick = { axis, lane: places.laneOf[index]!, count };
        const value = outputs[name]!;
        own[name] = 'data' in value ? takeLane(value, pick) : takeBufferLane(value, pick, this.runtime);
      }
      return own;
    });
  }

  private commonStem(runs: readonly LaneRun[]): Stem | undefined {
    const [first] = runs as [LaneRun];
    const stem = this.stemOf(first);
    if (runs.length > 1) return runs.every((run) => this.stemOf(run) === stem) ? stem : undefined;
    // Alone it stays as it is: a copy would be for nothing if others of its stem come back.
    return this.behindStem !== undefined && first.cache?.content === 'rest' ? first.cache.stem : undefined;
  }

  private mergeInputs(
    runs: readonly LaneRun[],
    places: LanePlaces,
  ): Record<string, TensorValue | ResidentValue> {
    const merged: Record<string, TensorValue | ResidentValue> = {};
    for (const name of Object.keys(runs[0]!.inputs)) {
      const values = runs.map(({ inputs }) => inputs[name]!);
      if (areResident(values)) {
        merged[name] = mergeBuffers(values, places, this.runtime);
        continue;
      }
      const merge = merging.get(name) ?? mergeRows;
      merged[name] = merge(values as readonly TensorValue[], places);
    }
    return merged;
  }
}

/** `behindStem` is the same graph for lanes that have a stem in common. */
export async function compileLanes(
  runtime: Runtime,
  stage: Stage,
  graph: NamedTensors,
  weights: readonly WeightStore[],
  behindStem?: () => NamedTensors,
): Promise<LaneProgram> {
  const compile = (outputs: NamedTensors): Promise<Program> =>
    runtime.compile(outputs, weights, { packed: true });
  const program = await compile(graph);
  const other = behindStem === undefined ? undefined : lazily(() => compile(behindStem()));
  return new LaneProgram(stage, program, runtime, graph, other);
}

/** Brings the caches of all runs together. */
function placeRuns(
  runs: readonly LaneRun[],
  isBehindStem: boolean,
): { readonly pool: CachePool | undefined; readonly places: LanePlaces } {
  const caches = runs.flatMap(({ cache }) => (cache === undefined ? [] : [cache]));
  const content = isBehindStem ? 'rest' : 'whole';
  const [first] = caches;
  // Alone and without a row of its own, it reads the stem as its past.
  const isReader = caches.length === 1 && first!.content === undefined;
  const pool = first === undefined ? undefined : isReader ? first.pool : gatherCaches(caches, content);
  return {
    pool,
    places: {
      lanes: pool?.lanes ?? runs.length,
      laneOf: runs.map(({ cache }, index) => cache?.lane ?? index),
      pastOf: runs.map(({ cache }) => (cache === undefined ? 0 : cache.count(content) + 1)),
      stemOf: isBehindStem ? caches.map(({ stemLength }) => stemLength + 1) : undefined,
    },
  };
}

/** The slots of a pool, as far as the longest of the runs reads them. */
function addViews(
  inputs: Record<string, TensorValue | ResidentValue>,
  name: string,
  pool: CachePool | undefined,
  lengths: readonly number[] = [],
): void {
  if (pool === undefined) return;
  for (let slot = 0; slot < 2 * pool.sizes.layerCount; slot++)
    inputs[`${name}${slot}`] = pool.view(slot, Math.max(...lengths));
}

const laneAxis = (shape: Shape): number => shape.findIndex((dimension) => bareSymbol(dimension) === 'lanes');

/** An input is of one kind, whichever the lane. */
const areResident = (values: readonly (TensorValue | ResidentValue)[]): values is readonly ResidentValue[] =>
  'buffer' in values[0]!;
