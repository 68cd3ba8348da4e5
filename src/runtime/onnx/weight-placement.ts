/**
 * How a model refers to its weights. ONNX Runtime maps a file only from the model's own folder or below it, and takes
 * either all files from disk or all as bytes. So the model lies in the deepest folder above every weight file, and
 * weights in memory become part of the model as soon as one file is mapped.
 */
import { dirname, isAbsolute, relative, sep } from 'node:path';
import { MistletoeError } from '../../core/errors.js';
import type { Tensor, TensorOf } from '../../graph/tensor.js';
import { findWeight } from '../find-weight.js';
import type { WeightStore } from '../weights.js';
import type { OnnxBuilder } from './builder.js';

export interface ExternalFile {
  readonly location: string;
  readonly source: string | Uint8Array;
}

export class WeightPlacement {
  /** Where the model must lie while it is loaded; undefined if it maps nothing. */
  readonly folder: string | undefined;
  private readonly stores = new Map<string, WeightStore>();
  private readonly names = new Map<string, string>();
  private readonly files = new Map<string, ExternalFile>();

  constructor(tensors: readonly Tensor[], weights: readonly WeightStore[]) {
    for (const tensor of tensors) {
      if (tensor.operation === 'weight') this.stores.set(tensor.attributes.name, findWeight(weights, tensor));
    }
    this.folder = findCommonFolder(
      [...this.stores.values()].flatMap((store) => (store.kind === 'file' ? [store.path] : [])),
    );
  }

  get externalFiles(): readonly ExternalFile[] {
    return [...this.files.values()];
  }

  place(builder: OnnxBuilder, tensor: TensorOf<'weight'>): string {
    const { name } = tensor.attributes;
    const known = this.names.get(name);
    if (known !== undefined) return known;
    const placed = this.placeNew(builder, tensor);
    this.names.set(name, placed);
    return placed;
  }

  private placeNew(builder: OnnxBuilder, tensor: TensorOf<'weight'>): string {
    const { name } = tensor.attributes;
    const store = this.stores.get(name)!;
    if (store.kind === 'file') {
      const location = relative(this.folder!, store.path).split(sep).join('/');
      this.files.set(location, { location, source: store.path });
      return builder.weight(tensor, { location, ...store.tensors.get(name)! });
    }
    if (store.kind === 'checkpoint') {
      throw new MistletoeError(
        'runtime',
        `Weight "${name}" was given as the checkpoint stores it; this runtime reads converted weights.`,
        { hint: 'Prepare the weights for the runtime that runs them.' },
      );
    }
    const { data } = store.tensors.get(name)!;
    const source = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    if (this.folder !== undefined) return builder.weight(tensor, source);
    const location = `memory${this.files.size}`;
    this.files.set(location, { location, source });
    return builder.weight(tensor, { location, offsetBytes: 0, sizeBytes: source.length });
  }
}

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
