/**
 * A program that several sequences run together. Each has a lane: its inputs are given as if it were alone, and a run
 * lays those of all lanes side by side, row r of lane s at r * lanes + s, shorter lanes filled up with rows that nobody
 * sees. One sequence alone is the case of one lane, where nothing is copied.
 *
 * In the graph every input and output has an axis `lanes` behind its row axis; three inputs are special. `mask`
 * [lanes, 1, row, past + row] blocks what belongs to nobody; `select` [selected, lanes] holds rows of the lane and
 * becomes rows of the whole; `past*` [past, lanes * head, size] is the pool in which the caches of all lanes lie.
 */
import type { Dimension, Shape } from '../graph/dimension.js';
import { addDimensions, bareSymbol, multiplyDimensions, symbol } from '../graph/dimension.js';
import { gatherRows } from '../graph/operations/indexing.js';
import { input } from '../graph/operations/leaves.js';
import { concatenate, reshape } from '../graph/operations/shaping.js';
import type { Tensor } from '../graph/tensor.js';
import type { NamedTensors, NamedValues, Program, Runtime, TensorValue } from '../runtime/program.js';
import type { WeightStore } from '../runtime/weights.js';
import { blocked } from './attention-inputs.js';
import type { CacheSizes } from './cache-pool.js';
import { gatherCaches } from './cache-pool.js';
import type { AttentionContext, KeyValueRows } from './decoder-layer.js';
import type { KvCache } from './kv-cache.js';

export const lanes = symbol('lanes');
export const row = symbol('row');

/** One sequence's part of a run. */
export interface LaneRun {
  /** Shapes without the axis of lanes. */
  readonly inputs: NamedValues;
  /** What its `past` is; a program without one has none. */
  readonly cache?: KvCache | undefined;
}

/** `draft` programs run before the target's pass of the same step. */
export type Stage = 'draft' | 'verify';

export class LaneProgram {
  /** [output] its axis of lanes, and the input that has as many rows; none where the number is fixed. */
  private readonly outputs: ReadonlyMap<string, { readonly axis: number; readonly like: string | undefined }>;

  constructor(
    readonly stage: Stage,
    private readonly program: Program,
    graph: NamedTensors,
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

  /** Outputs of each run, as if it were alone. */
  async run(runs: readonly LaneRun[], wanted: readonly string[]): Promise<readonly NamedValues[]> {
    const caches = runs.flatMap(({ cache }) => (cache === undefined ? [] : [cache]));
    const pool = caches.length === 0 ? undefined : gatherCaches(caches);
    const places: Places = {
      lanes: pool?.lanes ?? runs.length,
      laneOf: runs.map(({ cache }, index) => cache?.lane ?? index),
      pastLength: Math.max(1, ...caches.map(({ pastLength }) => pastLength)),
    };
    const inputs = mergeInputs(runs, places);
    if (pool !== undefined) {
      for (let slot = 0; slot < 2 * pool.sizes.layerCount; slot++)
        inputs[`past${slot}`] = pool.view(slot, places.pastLength);
    }
    const outputs = await this.program.run(inputs, wanted);
    return runs.map((run, index) =>
      Object.fromEntries(
        wanted.map((name) => {
          const { axis, like } = this.outputs.get(name)!;
          const count = like === undefined ? undefined : run.inputs[like]!.shape[0]!;
          return [name, takeLane(outputs[name]!, axis, places.laneOf[index]!, count)];
        }),
      ),
    );
  }
}

export async function compileLanes(
  runtime: Runtime,
  stage: Stage,
  graph: NamedTensors,
  weights: readonly WeightStore[],
): Promise<LaneProgram> {
  return new LaneProgram(stage, await runtime.compile(graph, weights, { packed: true }), graph);
}

interface Places {
  readonly lanes: number;
  /** [run] */
  readonly laneOf: readonly number[];
  /** Of the longest lane. */
  readonly pastLength: number;
}

const laneAxis = (shape: Shape): number => shape.findIndex((dimension) => bareSymbol(dimension) === 'lanes');

function mergeInputs(runs: readonly LaneRun[], places: Places): Record<string, TensorValue> {
  const merged: Record<string, TensorValue> = {};
  for (const name of Object.keys(runs[0]!.inputs)) {
    const values = runs.map(({ inputs }) => inputs[name]!);
    merged[name] =
      name === 'mask' || name === 'chainMask'
        ? mergeMasks(values, runs, places)
        : name === 'select'
          ? mergeSelections(values, places)
          : mergeRows(values, places);
  }
  return merged;
}

/** [row, ...] of each lane -> [row, lanes, ...] */
function mergeRows(values: readonly TensorValue[], { lanes, laneOf }: Places): TensorValue {
  const [first] = values;
  const [, ...rest] = first!.shape;
  const rows = Math.max(...values.map(({ shape }) => shape[0]!));
  if (lanes === 1) return { data: first!.data, shape: [rows, 1, ...rest] };
  const width = rest.reduce((product, size) => product * size, 1);
  const data = newArray(first!.data, rows * lanes * width);
  values.forEach((value, index) => {
    const lane = laneOf[index]!;
    for (let row = 0; row < value.shape[0]!; row++)
      data.set(value.data.subarray(row * width, (row + 1) * width), (row * lanes + lane) * width);
  });
  return { data, shape: [rows, lanes, ...rest] };
}

/** Row r of a lane is row r * lanes + lane of the whole. [selected] of each lane -> [selected, lanes] */
function mergeSelections(values: readonly TensorValue[], { lanes, laneOf }: Places): TensorValue {
  const selected = Math.max(...values.map(({ shape }) => shape[0]!));
  if (lanes === 1) return { data: values[0]!.data, shape: [selected, 1] };
  const data = new Int32Array(selected * lanes);
  values.forEach((value, index) => {
    const lane = laneOf[index]!;
    value.data.forEach((row, at) => (data[at * lanes + lane] = row * lanes + lane));
  });
  return { data, shape: [selected, lanes] };
}

/** [row, past + new] of each lane -> [lanes, 1, row, past + new], with the columns of the longest past. */
function mergeMasks(values: readonly TensorValue[], runs: readonly LaneRun[], places: Places): TensorValue {
  const { lanes, laneOf, pastLength } = places;
  const rows = Math.max(...values.map(({ shape }) => shape[0]!));
  const pastOf = (index: number): number => runs[index]!.cache?.pastLength ?? 0;
  const fresh = Math.max(...values.map(({ shape }, index) => shape[1]! - pastOf(index)));
  const width = pastLength + fresh;
  if (lanes === 1) return { data: values[0]!.data, shape: [1, 1, rows, width] };
  const data = new Float32Array(lanes * rows * width).fill(blocked);
  values.forEach((value, index) => {
    const own = pastOf(index);
    const [count, columns] = value.shape as [number, number];
    for (let row = 0; row < count; row++) {
      const start = (laneOf[index]! * rows + row) * width;
      data.set(value.data.subarray(row * columns, row * columns + own), start);
      data.set(value.data.subarray(row * columns + own, (row + 1) * columns), start + pastLength);
    }
  });
  return { data, shape: [lanes, 1, rows, width] };
}

/** [..., row, lanes, ...] -> [..., row, ...] of one lane, the first `count` rows. */
function takeLane(value: TensorValue, axis: number, lane: number, count: number | undefined): TensorValue {
  const { shape, data } = value;
  const laneCount = shape[axis]!;
  const rows = shape[axis - 1]!;
  const kept = count ?? rows;
  const without = [...shape.slice(0, axis - 1), kept, ...shape.slice(axis + 1)];
  if (laneCount === 1 && kept === rows) return { data, shape: without };
  const width = shape.slice(axis + 1).reduce((product, size) => product * size, 1);
  const leading = shape.slice(0, axis - 1).reduce((product, size) => product * size, 1);
  const taken = newArray(data, leading * kept * width);
  for (let outer = 0; outer < leading; outer++) {
    for (let row = 0; row < kept; row++) {
      const from = ((outer * rows + row) * laneCount + lane) * width;
      taken.set(data.subarray(from, from + width), (outer * kept + row) * width);
    }
  }
  return { data: taken, shape: without };
}

function newArray<Data extends TensorValue['data']>(like: Data, length: number): Data {
  return new (like.constructor as new (length: number) => Data)(length);
}

/** Rows of all lanes, one after the other, as decoders take them. [row, lanes, width] -> [1, row * lanes, width] */
export function joinLanes(x: Tensor): Tensor {
  return reshape(x, [1, multiplyDimensions(x.shape[0]!, lanes), x.shape.at(-1)!]);
}

/** And back. [1, row * lanes, width] -> [row, lanes, width] */
export function partLanes(x: Tensor, rows: Dimension = row): Tensor {
  return reshape(x, [rows, lanes, x.shape.at(-1)!]);
}

/** The selected rows of [1, row * lanes, width]. -> [selected, lanes, width] */
export function selectRows(x: Tensor, count: Dimension = symbol('selected')): Tensor {
  const select = input('select', [count, lanes], 'int32');
  return gatherRows(reshape(x, x.shape.slice(1)), select);
}

/** The inputs that attentionInputs fills. */
export function declareAttention({ headSize }: { headSize: number }): AttentionContext {
  const angles = (name: string): Tensor =>
    reshape(input(name, [row, lanes, headSize / 2]), [multiplyDimensions(row, lanes), headSize / 2]);
  const mask = input('mask', [lanes, 1, row, addDimensions(symbol('past'), row)]);
  return { cosine: angles('cosine'), sine: angles('sine'), mask, lanes };
}

/** The past of all lanes, as a pool holds it. */
export function declarePast(sizes: CacheSizes): readonly KeyValueRows[] {
  const heads = multiplyDimensions(lanes, sizes.keyValueHeadCount);
  const shape: Dimension[] = [symbol('past'), heads, sizes.headSize];
  return Array.from({ length: sizes.layerCount }, (_, layer) => ({
    keys: input(`past${2 * layer}`, shape),
    values: input(`past${2 * layer + 1}`, shape),
  }));
}

/** New rows as KvCache.append takes them, with the lanes in between. [slot, row, lanes, head, size] */
export function stackRows(rows: readonly KeyValueRows[], sizes: CacheSizes): Tensor {
  const { keyValueHeadCount, headSize } = sizes;
  const stacked = concatenate(
    rows.flatMap(({ keys, values }) => [keys, values]),
    0,
  );
  return reshape(stacked, [2 * rows.length, row, lanes, keyValueHeadCount, headSize]);
}
