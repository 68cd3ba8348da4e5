/**
 * `openCheckpoint` throws the first problem of a folder or a GGUF file, `findProblems` lists all. Only headers are
 * read.
 */
import { listFirst } from '../core/number-text.js';
import { join, resolve } from 'node:path';
import { MistletoeError } from '../core/errors.js';
import { chooseLayout, listFolder, readConfig, readShardIndex } from './checkpoint-folder.js';
import type { WeightLayout } from './checkpoint-folder.js';
import { isGgufFile, openGguf } from './gguf/open-gguf.js';
import { readSafetensorsHeader } from './safetensors/safetensors.js';
import { quote, refuse, type Checkpoint, type StoredTensor } from './stored-tensor.js';
import { readTorchFile, readTorchHeader } from './torch/torch-zip.js';

export interface Problem {
  readonly problem: string;
  readonly remedy: string;
}

export async function openCheckpoint(folder: string): Promise<Checkpoint> {
  const { checkpoint, failures } = await inspectFolder(folder);
  const [first] = failures;
  if (first === undefined) return checkpoint;
  if (failures.length === 1) throw first;
  throw new MistletoeError('checkpoint', first.message, {
    hint: `${first.hint ?? ''} (${failures.length - 1} more ${failures.length === 2 ? 'problem' : 'problems'} in this folder)`,
    cause: first,
  });
}

export async function findProblems(folder: string): Promise<readonly Problem[]> {
  const { failures } = await inspectFolder(folder);
  return failures.map(({ message, hint }) => ({ problem: message, remedy: hint ?? '' }));
}

async function inspectFolder(
  folder: string,
): Promise<{ readonly checkpoint: Checkpoint; readonly failures: readonly MistletoeError[] }> {
  const root = resolve(folder);
  const failures: MistletoeError[] = [];
  const attempt = async <Result>(action: () => Promise<Result> | Result): Promise<Result | undefined> => {
    try {
      return await action();
    } catch (failure) {
      if (!(failure instanceof MistletoeError)) throw failure;
      failures.push(failure);
      return undefined;
    }
  };

  if (isGgufFile(root)) {
    const checkpoint = await attempt(() => openGguf(root));
    return {
      checkpoint: checkpoint ?? { folder: root, config: {}, tensors: new Map(), files: [] },
      failures,
    };
  }
  const names = await attempt(() => listFolder(root));
  const config = names && (await attempt(() => readConfig(root, names)));
  const layout = names && (await attempt(() => chooseLayout(root, names)));
  const weights = layout && (await readWeights(root, layout, attempt));
  let maskToken: number | undefined;
  if (weights !== undefined && names?.includes(maskFile) === true) {
    const found = await attempt(() => readTorchFile(join(root, maskFile)));
    maskToken = found?.numbers.get('mask_token_id');
    for (const tensor of found?.tensors ?? []) {
      const name = tensor.name === 'embedding' ? 'mask_embedding' : `mask_embedding.${tensor.name}`;
      weights.tensors.set(name, { ...tensor, name });
    }
  }
  const tensors = weights?.tensors ?? new Map<string, StoredTensor>();
  if (layout !== undefined && failures.length === 0 && tensors.size === 0) {
    failures.push(refuse(`${root} holds weight files without any tensor`, 'Download the weights again.'));
  }
  return {
    checkpoint: { folder: root, config: config ?? {}, tensors, maskToken, files: weights?.files ?? [] },
    failures,
  };
}

/** DFlash heads may keep the embedding of their mask in a file of its own. */
const maskFile = 'mask_embedding.pt';

type Attempt = <Result>(action: () => Promise<Result> | Result) => Promise<Result | undefined>;

async function readWeights(root: string, layout: WeightLayout, attempt: Attempt) {
  const tensors = new Map<string, StoredTensor>();
  const first = join(root, layout.file);
  if (!layout.isIndex) {
    const found = await attempt(() => readHeader(first));
    for (const tensor of found ?? []) tensors.set(tensor.name, tensor);
    return { tensors, files: [first] };
  }
  const shardOf = await attempt(() => readShardIndex(first));
  if (shardOf === undefined) return { tensors, files: [] };
  const shards = [...new Set(shardOf.values())].sort();
  for (const shard of shards) {
    const found = await attempt(() => readHeader(join(root, shard)));
    if (found === undefined) continue;
    await attempt(() => {
      checkShard(first, shard, found, shardOf);
    });
    for (const tensor of found) tensors.set(tensor.name, tensor);
  }
  return { tensors, files: shards.map((shard) => join(root, shard)) };
}

function readHeader(file: string): Promise<StoredTensor[]> {
  return file.endsWith('.safetensors') ? readSafetensorsHeader(file) : readTorchHeader(file);
}

function checkShard(
  index: string,
  shard: string,
  found: readonly StoredTensor[],
  shardOf: ReadonlyMap<string, string>,
): void {
  const names = new Set(found.map(({ name }) => name));
  const missing = [...shardOf].filter(([name, file]) => file === shard && !names.has(name));
  const remedy = 'Index and shards come from different exports: download all of them again.';
  if (missing.length > 0) {
    const listed = listNames(missing.map(([name]) => name));
    throw refuse(`${index} says that ${shard} holds ${listed}, but it does not`, remedy);
  }
  const foreign = found.filter(({ name }) => shardOf.get(name) !== shard);
  if (foreign.length > 0) {
    const listed = listNames(foreign.map(({ name }) => name));
    throw refuse(`${shard} holds ${listed}, which ${index} does not place there`, remedy);
  }
}

const listNames = (names: readonly string[]): string => listFirst(names, 5, quote);
