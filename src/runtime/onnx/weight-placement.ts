/**
 * How a model refers to its weights. ONNX Runtime maps files only from one folder or below, and takes either all files
 * from disk or all as bytes. So that is the deepest common folder, and weights in memory become part of the model if
 * any file is mapped.
 */
import { dirname, isAbsolute, relative, sep } from 'node:path';
import { MistletoeError } from '../../core/errors.js';
import type { DType, Tensor, TensorOf } from '../../graph/tensor.js';
import type { QuantizedMatrix, WeightLocation, WeightStore } from '../weights.js';
import { countBlocks, countQuantizedBytes, findWeight, quantizedBlock } from '../weights.js';
import type { OnnxBuilder } from './builder.js';

export interface ExternalFile {
  readonly location: string;
  readonly source: string | Uint8Array;
}

export interface PlacedWeight {
  readonly name: string;
  readonly dtype: DType;
}

/** For MatMulNBits: the values are [column, block, bytes of a block], their scales are [column, block]. */
export interface PlacedMatrix extends QuantizedMatrix {
  readonly values: string;
  readonly scales: string;
  /** Columns of each weight, in the order of the file. */
  readonly parts: readonly (readonly [weight: string, columns: number])[];
}

export class WeightPlacement {
  /** Undefined if nothing is mapped. */
  readonly folder: string | undefined;
  private readonly placed = new Map<WeightStore, Map<string, PlacedWeight>>();
  private readonly joined = new Map<string, PlacedMatrix>();
  private readonly files = new Map<string, ExternalFile>();

  constructor(
    tensors: readonly Tensor[],
    private readonly weights: readonly WeightStore[],
  ) {
    const stores = new Set<WeightStore>();
    for (const tensor of tensors) {
      if (tensor.operation === 'weight') stores.add(this.find(tensor, false));
      for (const input of tensor.inputs)
        if (input.operation === 'weight') stores.add(this.find(input, isProduct(tensor)));
    }
    this.folder = findCommonFolder(
      [...stores].flatMap((store) => (store.kind === 'file' ? [store.path] : [])),
    );
  }

  get externalFiles(): readonly ExternalFile[] {
    return [...this.files.values()];
  }

  place(builder: OnnxBuilder, tensor: TensorOf<'weight'>, reader?: Tensor): PlacedWeight {
    const { name } = tensor.attributes;
    const store = this.find(tensor, reader !== undefined && isProduct(reader));
    const ofStore = this.placed.get(store) ?? new Map<string, PlacedWeight>();
    this.placed.set(store, ofStore);
    const placed = ofStore.get(name) ?? this.placeNew(builder, tensor, store);
    ofStore.set(name, placed);
    return placed;
  }

  /** Quantized weights as one matrix; undefined if they are not, or not adjacent in one file. */
  placeQuantized(builder: OnnxBuilder, tensors: readonly TensorOf<'weight'>[]): PlacedMatrix | undefined {
    const stores = new Set(tensors.map((tensor) => this.find(tensor, true)));
    const [store] = stores;
    if (stores.size > 1 || store?.kind !== 'file') return undefined;
    const names = [...new Set(tensors.map(({ attributes }) => attributes.name))];
    const matrix = joinAdjacent(names.map((name) => ({ name, ...store.tensors.get(name)! })));
    if (matrix === undefined) return undefined;
    const label = matrix.parts.map(([name]) => name).join(' + ');
    const placed = this.joined.get(label) ?? writeMatrix(builder, label, matrix, this.locate(store.path));
    this.joined.set(label, placed);
    return placed;
  }

  private locate(path: string): string {
    const location = relative(this.folder!, path).split(sep).join('/');
    this.files.set(location, { location, source: path });
    return location;
  }

  private find(tensor: TensorOf<'weight'>, isFactor: boolean): WeightStore {
    return findWeight(this.weights, tensor, isFactor);
  }

  private placeNew(builder: OnnxBuilder, tensor: TensorOf<'weight'>, store: WeightStore): PlacedWeight {
    const { name } = tensor.attributes;
    if (store.kind === 'file') {
      const location = this.locate(store.path);
      const place = store.tensors.get(name)!;
      const { shape, dtype = 'float32' } = place;
      // A table that is also packed for a product has two entries.
      const own = place.copies === undefined ? name : `${name} packed`;
      return { name: builder.weight(own, shape, dtype, { ...place, location }), dtype };
    }
    if (store.kind === 'checkpoint') {
      throw new MistletoeError(
        'runtime',
        `Weight "${name}" was given as the checkpoint stores it; this runtime reads converted weights.`,
        { hint: 'Prepare the weights for the runtime that runs them.' },
      );
    }
    const { shape, data, dtype = 'float32' } = store.tensors.get(name)!;
    const source = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    if (this.folder !== undefined) return { name: builder.weight(name, shape, dtype, source), dtype };
    const location = `memory${this.files.size}`;
    this.files.set(location, { location, source });
    const place = { location, offsetBytes: 0, sizeBytes: source.length };
    return { name: builder.weight(name, shape, dtype, place), dtype };
  }
}

interface JoinedMatrix extends Omit<PlacedMatrix, 'values' | 'scales'> {
  readonly offsetBytes: number;
  readonly scaleOffsetBytes: number;
}

function joinAdjacent(
  locations: readonly (WeightLocation & { readonly name: string })[],
): JoinedMatrix | undefined {
  const sorted = locations.toSorted((left, right) => left.offsetBytes - right.offsetBytes);
  let joined: JoinedMatrix | undefined;
  for (const { name, offsetBytes, quantized } of sorted) {
    if (quantized === undefined) return undefined;
    const parts = [...(joined?.parts ?? []), [name, quantized.columns] as const];
    joined ??= { ...quantized, columns: 0, offsetBytes, parts };
    const isAdjacent =
      quantized.inner === joined.inner &&
      quantized.bits === joined.bits &&
      offsetBytes === joined.offsetBytes + countQuantizedBytes(joined) &&
      quantized.scaleOffsetBytes === joined.scaleOffsetBytes + 4 * countBlocks(joined);
    if (!isAdjacent) return undefined;
    joined = { ...joined, columns: joined.columns + quantized.columns, parts };
  }
  return joined;
}

function writeMatrix(
  builder: OnnxBuilder,
  label: string,
  { offsetBytes, scaleOffsetBytes, ...matrix }: JoinedMatrix,
  location: string,
): PlacedMatrix {
  const { bits, columns } = matrix;
  const blocks = countBlocks(matrix);
  const scales = builder.weight(`${label} scales`, [blocks], 'float32', {
    ...{ location, offsetBytes: scaleOffsetBytes, sizeBytes: 4 * blocks },
  });
  const shape = [columns, blocks / columns, (quantizedBlock * bits) / 8];
  const values = builder.weight(`${label} in ${bits} bits`, shape, 'uint8', {
    ...{ location, offsetBytes, sizeBytes: countQuantizedBytes(matrix) },
  });
  return { ...matrix, values, scales };
}

const isProduct = ({ operation }: Tensor): boolean => operation === 'contract';

function findCommonFolder(paths: readonly string[]): string | undefined {
  const [first] = paths;
  if (first === undefined) return undefined;
  let folder = dirname(first);
  for (const path of paths) {
    if (!isAbsolute(path)) {
      throw new MistletoeError('checkpoint', `The weight file "${path}" was expected as an absolute path.`);
    }
    while (!isBelow(folder, path) && dirname(folder) !== folder) folder = dirname(folder);
  }
  return folder;
}

function isBelow(folder: string, path: string): boolean {
  return path.startsWith(folder.endsWith(sep) ? folder : folder + sep);
}

/** Settings of a session whose model is loaded from memory. */
export const mappingFrom = (folder: string) => ({
  'session.model_external_initializers_file_folder_path': folder,
});
