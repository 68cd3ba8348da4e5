/**
 * A strided tensor (a torch view: transposed, sliced) is cut in halves along its widest axis until each piece spans at
 * most one chunk of the file; each piece is read once and scattered to its row-major place.
 */
import type { BinaryFile } from './binary-file.js';
import { readExactly } from './binary-file.js';
import type { Decode } from './element-decoding.js';
import type { StoredTensor } from './stored-tensor.js';
import { bytesPerElement } from './stored-tensor.js';

export interface StridedRead<Target> {
  readonly tensor: StoredTensor;
  readonly strides: readonly number[];
  readonly chunkBytes: number;
  readonly target: Target;
  readonly decode: Decode<Target>;
  readonly allocateScratch: (count: number) => Target;
}

/** A box of the tensor: per axis the first index and how many. */
interface Region {
  readonly starts: readonly number[];
  readonly sizes: readonly number[];
}

export async function fillStrided<Target extends Float32Array | Int32Array | Uint16Array>(
  file: BinaryFile,
  read: StridedRead<Target>,
): Promise<void> {
  const { tensor, strides, chunkBytes } = read;
  const itemBytes = bytesPerElement(tensor.dtype);
  const capacity = Math.min(chunkBytes, tensor.sizeBytes) / itemBytes;
  const raw = new Uint8Array(capacity * itemBytes);
  const values = read.allocateScratch(capacity);
  const pending: Region[] = [{ starts: tensor.shape.map(() => 0), sizes: tensor.shape }];
  for (let region = pending.pop(); region !== undefined; region = pending.pop()) {
    const { starts, sizes } = region;
    const extents = sizes.map((size, axis) => (size - 1) * strides[axis]!);
    const span = extents.reduce((sum, extent) => sum + extent, 1);
    if (span > capacity) {
      pending.push(...halve(region, extents.indexOf(Math.max(...extents))));
      continue;
    }
    const first = starts.reduce((sum, start, axis) => sum + start * strides[axis]!, 0);
    await readExactly(file, tensor.offsetBytes + first * itemBytes, raw.subarray(0, span * itemBytes));
    read.decode(raw, values, 0, span);
    scatter(read, region, values);
  }
}

function halve({ starts, sizes }: Region, axis: number): [Region, Region] {
  const size = sizes[axis]!;
  const half = Math.floor(size / 2);
  return [
    { starts: starts.with(axis, starts[axis]! + half), sizes: sizes.with(axis, size - half) },
    { starts, sizes: sizes.with(axis, half) },
  ];
}

/** Copies a region from its span of the file, where steps are `strides`, to its row-major place in the target. */
function scatter<Target extends Float32Array | Int32Array | Uint16Array>(
  { tensor, strides, target }: StridedRead<Target>,
  { starts, sizes }: Region,
  values: Target,
): void {
  const rank = sizes.length;
  const targetStrides = new Array<number>(rank).fill(1);
  for (let axis = rank - 2; axis >= 0; axis -= 1) {
    targetStrides[axis] = targetStrides[axis + 1]! * tensor.shape[axis + 1]!;
  }
  const walk = (axis: number, from: number, to: number): void => {
    const size = sizes[axis]!;
    const fromStep = strides[axis]!;
    const toStep = targetStrides[axis]!;
    if (axis === rank - 1) {
      for (let index = 0; index < size; index += 1) target[to + index] = values[from + index * fromStep]!;
      return;
    }
    for (let index = 0; index < size; index += 1)
      walk(axis + 1, from + index * fromStep, to + index * toStep);
  };
  walk(
    0,
    0,
    starts.reduce((sum, start, axis) => sum + start * targetStrides[axis]!, 0),
  );
}
