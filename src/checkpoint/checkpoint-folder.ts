/** Finds the weight files of a folder and reads its JSON files. Every failure is a checkpoint error. */
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { isRecord, parseJsonText } from '../core/json-text.js';
import { fileLimits } from '../core/limits.js';
import { codeOf, describeCause } from '../core/errors.js';
import { readBoundedFile } from '../core/files.js';
import { asCheckpointError } from './binary-file.js';
import { quote, refuse } from './stored-tensor.js';

export interface WeightLayout {
  readonly file: string;
  /** Whether the file is an index of shards. */
  readonly isIndex: boolean;
}

// Safetensors before pickles, if a folder has both.
const knownFiles: readonly string[] = [
  ...['model.safetensors.index.json', 'model.safetensors'],
  ...['pytorch_model.bin.index.json', 'pytorch_model.bin'],
];

/** Heads without their target, as in medusa_lm_head.pt. */
const headFiles: readonly RegExp[] = [/^[a-z0-9]+_lm_head\.safetensors$/, /^[a-z0-9]+_lm_head\.pt$/];

/** Config and tokenizer files, including those that only transformers and vLLM read. */
export const describingNames: readonly string[] = [
  ...['config.json', 'generation_config.json'],
  ...['tokenizer.json', 'tokenizer.model', 'tokenizer_config.json'],
  ...['special_tokens_map.json', 'added_tokens.json', 'vocab.json', 'merges.txt'],
  ...['chat_template.jinja', 'chat_template.json'],
];

export async function listFolder(folder: string): Promise<string[]> {
  try {
    const status = await stat(folder);
    if (!status.isDirectory()) {
      throw refuse(
        `${folder} is a file, expected a model folder`,
        'Give the folder that holds config.json and the weights, or a file whose name ends in .gguf.',
      );
    }
    return await readdir(folder);
  } catch (cause) {
    throw asCheckpointError(folder, cause);
  }
}

export function chooseLayout(folder: string, names: readonly string[]): WeightLayout {
  const candidates = names.filter((name) => name.endsWith('.safetensors')).sort();
  const file =
    knownFiles.find((known) => names.includes(known)) ??
    headFiles.flatMap((pattern) => names.find((name) => pattern.test(name)) ?? [])[0] ??
    (candidates.length === 1 ? candidates[0] : undefined);
  if (file !== undefined) return { file, isIndex: file.endsWith('.index.json') };
  if (candidates.length > 1) {
    throw refuse(
      `${folder} has ${candidates.length} safetensors files (${candidates.slice(0, 3).join(', ')}, ...) and no index`,
      'Add model.safetensors.index.json, which says which tensor lies in which file.',
    );
  }
  const gguf = names.filter(isGguf).sort()[0];
  if (gguf !== undefined)
    throw refuse(
      `${join(folder, gguf)} is a GGUF file; folders are read if they have safetensors or torch files`,
      'Give the path of the GGUF file itself. Download it first if it is on the hub.',
    );
  throw refuse(
    `${folder} has no weights`,
    'Expected model.safetensors, pytorch_model.bin, an index of shards, or heads such as medusa_lm_head.pt.',
  );
}

const isGguf = (name: string): boolean => name.toLowerCase().endsWith('.gguf');

/** Whether chooseLayout would choose this file, or refuse it by its format. */
export function isWeightName(name: string): boolean {
  return (
    knownFiles.includes(name) ||
    headFiles.some((pattern) => pattern.test(name)) ||
    name.endsWith('.safetensors') ||
    isGguf(name)
  );
}

export async function readConfig(folder: string, names: readonly string[]): Promise<Record<string, unknown>> {
  return names.includes('config.json')
    ? readJsonObject(join(folder, 'config.json'), fileLimits.configuration)
    : {};
}

export async function readShardIndex(path: string): Promise<Map<string, string>> {
  const { weight_map: weightMap } = await readJsonObject(path, fileLimits.shardIndex);
  if (!isRecord(weightMap)) throw refuse(`${path} has no weight_map`, 'Download the index again.');
  const shards = new Map<string, string>();
  for (const [tensor, shard] of Object.entries(weightMap)) {
    if (typeof shard !== 'string') {
      throw refuse(
        `${path} gives ${quote(tensor)} a ${typeof shard} for a file name`,
        'Download the index again.',
      );
    }
    checkShardName(path, shard);
    shards.set(tensor, shard);
  }
  if (shards.size === 0) throw refuse(`${path} has an empty weight_map`, 'Download the index again.');
  return shards;
}

/** Whether an untrusted path stays inside its folder on every platform. */
export const staysInside = (path: string): boolean =>
  !/[\\:\p{Cc}]/u.test(path) && !path.split('/').some((part) => ['', '.', '..'].includes(part));

const maxShardName = 255;

function checkShardName(index: string, shard: string): void {
  if (shard.length > maxShardName) {
    throw refuse(
      `${index} names a file of ${shard.length} characters, ${quote(shard.slice(0, 60))}...`,
      'Download the index again.',
    );
  }
  if (!staysInside(shard)) {
    throw refuse(
      `${index} names the file ${quote(shard)}, which does not stay inside the folder`,
      'Use plain file names in the index; do not trust a checkpoint that points elsewhere.',
    );
  }
  if (!/\.(safetensors|bin|pt)$/.test(shard)) {
    throw refuse(
      `${index} names the file ${quote(shard)}, expected .safetensors, .bin or .pt`,
      'Download the index again.',
    );
  }
}

async function readJsonObject(path: string, maxBytes: number): Promise<Record<string, unknown>> {
  const bytes = await readBoundedFile(path, maxBytes).catch((cause: unknown) => {
    if (codeOf(cause) !== undefined) throw asCheckpointError(path, cause);
    throw refuse(
      `${path} cannot be read: ${describeCause(cause)}`,
      'Check that it is the right file.',
      cause,
    );
  });
  let value: unknown;
  try {
    value = parseJsonText(bytes.toString('utf8'));
  } catch (cause) {
    throw refuse(
      `${path} is not valid JSON (${bytes.length} bytes)`,
      'Correct it, or download it again.',
      cause,
    );
  }
  if (!isRecord(value)) throw refuse(`${path} is not a JSON object`, 'Correct it, or download it again.');
  return value;
}
