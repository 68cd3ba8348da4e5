/**
 * Merges values of single lanes and splits them: row r of lane s is at r * lanes + s; shorter lanes are padded. One
 * lane is not copied.
 */
import type { ResidentValue, Runtime, TensorValue } from '../../runtime/program.js';
import { pickRows, resident } from '../../runtime/program.js';
import { blocked } from '../attention-inputs.js';

export interface LanePlaces {
  readonly lanes: number;
  readonly laneOf: readonly number[];
  /** [run] Including the dummy; 0 without a past. */
  readonly pastOf: readonly number[];
  /** [run] Rows of the shared prefix including the dummy; absent without a prefix. */
  readonly prefixOf?: readonly number[] | undefined;
}

/** [row, ...] -> [row, lanes, ...] */
export function mergeRows(values: readonly TensorValue[], { lanes, laneOf }: LanePlaces): TensorValue {
  const [first] = values as [TensorValue];
  const { rows, rest, width } = measureRows(values);
  if (lanes === 1) return { data: first.data, shape: [rows, 1, ...rest] };
  const data = newArray(first.data, rows * lanes * width);
  values.forEach((value, index) => {
    const lane = laneOf[index]!;
    for (let row = 0; row < value.shape[0]!; row++)
      data.set(value.data.subarray(row * width, (row + 1) * width), (row * lanes + lane) * width);
  });
  return { data, shape: [rows, lanes, ...rest] };
}

export function mergeBuffers(
  values: readonly ResidentValue[],
  { lanes, laneOf }: LanePlaces,
  runtime: Runtime,
): ResidentValue {
  const [first] = values as [ResidentValue];
  const { rows, rest, width } = measureRows(values);
  if (lanes === 1) return resident(first.buffer, [rows, 1, ...rest]);
  const merged = runtime.allocate(rows * lanes, width);
  values.forEach(({ buffer, shape }, index) => {
    const own = Int32Array.from({ length: shape[0]! }, (_, row) => row);
    const places = own.map((row) => row * lanes + laneOf[index]!);
    merged.copyRows(buffer.withWidth(width), own, places);
  });
  return resident(merged, [rows, lanes, ...rest]);
}

function measureRows(values: readonly { readonly shape: readonly number[] }[]) {
  const [, ...rest] = values[0]!.shape;
  const rows = Math.max(...values.map(({ shape }) => shape[0]!));
  return { rows, rest, width: rest.reduce((product, size) => product * size, 1) };
}

/** [selected] -> [selected, lanes] */
export function mergeSelections(values: readonly TensorValue[], { lanes, laneOf }: LanePlaces): TensorValue {
  const selected = Math.max(...values.map(({ shape }) => shape[0]!));
  if (lanes === 1) return { data: values[0]!.data, shape: [selected, 1] };
  const data = new Int32Array(selected * lanes);
  values.forEach((value, index) => {
    const lane = laneOf[index]!;
    value.data.forEach((row, at) => (data[at * lanes + lane] = row * lanes + lane));
  });
  return { data, shape: [selected, lanes] };
}

/**
 * [row, past + new] -> [lanes, 1, row, prefix + past + new], padded to the longest. A sequence knows one dummy; if
 * that is the prefix's, its lane's dummy is blocked here.
 */
export function mergeMasks(values: readonly TensorValue[], places: LanePlaces): TensorValue {
  const { lanes, laneOf, pastOf, prefixOf } = places;
  const rows = Math.max(...values.map(({ shape }) => shape[0]!));
  const prefix = prefixOf === undefined ? 0 : Math.max(...prefixOf);
  const past = Math.max(...pastOf);
  const pieces = values.map((_, index) => {
    if (prefixOf === undefined) return [{ columns: pastOf[index]!, to: 0 }];
    return [
      { columns: prefixOf[index]!, to: 0 },
      { columns: pastOf[index]! - 1, to: prefix + 1 },
    ];
  });
  const seen = pieces.map((own) => own.reduce((total, { columns }) => total + columns, 0));
  const width = prefix + past + Math.max(...values.map(({ shape }, index) => shape[1]! - seen[index]!));
  if (lanes === 1 && prefixOf === undefined) return { data: values[0]!.data, shape: [1, 1, rows, width] };
  const data = new Float32Array(lanes * rows * width).fill(blocked);
  values.forEach((value, index) => {
    const [count, columns] = value.shape as [number, number];
    const all = [...pieces[index]!, { columns: columns - seen[index]!, to: prefix + past }];
    for (let row = 0; row < count; row++) {
      const start = (laneOf[index]! * rows + row) * width;
      let from = row * columns;
      for (const { columns: taken, to } of all) {
        data.set(value.data.subarray(from, from + taken), start + to);
        from += taken;
      }
    }
  });
  return { data, shape: [lanes, 1, rows, width] };
}

export interface LanePick {
  readonly axis: number;
  readonly lane: number;
  readonly count: number | undefined;
}

/** [..., row, lanes, ...] -> [..., row, ...] */
export function takeLane({ data, shape }: TensorValue, pick: LanePick): TensorValue {
  const { taken, rows, width, isWhole } = findLane(shape, pick);
  if (isWhole) return { data, shape: taken };
  const picked = newArray(data, rows.length * width);
  rows.forEach((row, at) => {
    picked.set(data.subarray(row * width, (row + 1) * width), at * width);
  });
  return { data: picked, shape: taken };
}

export function takeBufferLane(
  { buffer, shape }: ResidentValue,
  pick: LanePick,
  runtime: Runtime,
): ResidentValue {
  const { taken, rows, allRows, isWhole } = findLane(shape, pick);
  if (isWhole) return resident(buffer, taken);
  // Of halves, it is half as wide as the shape says.
  const width = (buffer.rowCount * buffer.width) / allRows;
  return resident(pickRows(runtime, buffer.withWidth(width), rows), taken);
}

function findLane(shape: readonly number[], { axis, lane, count }: LanePick) {
  const [allRows, lanes] = shape.slice(axis - 1) as [number, number];
  const kept = count ?? allRows;
  const taken = [...shape.slice(0, axis - 1), kept, ...shape.slice(axis + 1)];
  const width = shape.slice(axis + 1).reduce((product, size) => product * size, 1);
  const leading = shape.slice(0, axis - 1).reduce((product, size) => product * size, 1);
  const isWhole = lanes === 1 && kept === allRows;
  const rows = new Int32Array(isWhole ? 0 : leading * kept);
  for (let at = 0; at < rows.length; at++)
    rows[at] = (Math.floor(at / kept) * allRows + (at % kept)) * lanes + lane;
  return { taken, rows, width, allRows: leading * allRows * lanes, isWhole };
}

function newArray<Data extends TensorValue['data']>(like: Data, length: number): Data {
  return new (like.constructor as new (length: number) => Data)(length);
}
