/**
 * The prompt sets of the field by name, from their homes on the Hugging Face hub. They are not shipped: a set is downloaded
 * once, verified by the hub's hashes, and written as JSON lines in the shape of MT-Bench, which every command reads.
 */
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import * as z from '../../core/schema.js';
import type { HubId, HubSettings } from '../../checkpoint/hub/hub-settings.js';
import { readReference, repositoryFolders } from '../../checkpoint/hub/hub-settings.js';
import { downloadDataFile, type DownloadOptions } from '../../checkpoint/hub/hub-download.js';
import { makeFolderBelow, replaceFile } from '../../core/durable-files.js';
import { defaultCacheFolder, readBoundedFile } from '../../core/files.js';
import { describeCause, MistletoeError } from '../../core/errors.js';
import { fileLimits, maxPrompts } from '../../core/limits.js';
import { parseJsonText } from '../../core/json-text.js';
import { readParquetTexts } from './parquet-file.js';

export interface HubSet {
  readonly repository: string;
  /** Which file of the repository; a revision may name it differently. */
  readonly file: RegExp;
  /** Read of a Parquet file. */
  readonly columns?: readonly string[];
  /** One line of a prompt file. */
  readonly read: (row: unknown, index: number) => object;
}

const texts = z.array(z.string());
const benchRow = z.object({
  question_id: z.union([z.string(), z.number()]).optional(),
  prompt_id: z.union([z.string(), z.number()]).optional(),
  category: z.string(),
  prompt: texts.optional(),
  turns: texts.optional(),
  reference: texts.nullish(),
});
const codeRow = z.object({ task_id: z.string(), prompt: z.string() });
const mathRow = z.object({ question: z.string(), answer: z.string() });

export const hubSets: Readonly<Record<string, HubSet>> = {
  'mt-bench': {
    repository: 'HuggingFaceH4/mt_bench_prompts',
    file: /^raw\/question\.jsonl$/,
    read(row, index) {
      const { question_id: id, prompt_id: other, category, ...rest } = z.readAs(benchRow, row);
      const { prompt, turns = prompt ?? [] } = rest;
      const reference = rest.reference?.length === 0 ? undefined : (rest.reference ?? undefined);
      return { question_id: id ?? other ?? index, category, turns, reference };
    },
  },
  humaneval: {
    repository: 'openai/openai_humaneval',
    file: /^(?:openai_humaneval|data)\/test-[\w-]+\.parquet$/,
    columns: Object.keys(codeRow.shape),
    read(row) {
      const { task_id: id, prompt } = z.readAs(codeRow, row);
      return { question_id: id, category: 'code', turns: [`Complete the code I provided.\n\n${prompt}`] };
    },
  },
  gsm8k: {
    repository: 'openai/gsm8k',
    file: /^main\/test-[\w-]+\.parquet$/,
    columns: Object.keys(mathRow.shape),
    read(row, index) {
      const { question, answer } = z.readAs(mathRow, row);
      return { question_id: index, category: 'math', turns: [question], reference: [answer] };
    },
  },
};

export const hubIdOf = ({ repository }: HubSet): HubId => ({ repository, revision: 'main', kind: 'dataset' });

export interface SetOptions {
  readonly settings: HubSettings;
  /** Without it, only what is in the cache is used. */
  readonly download: boolean;
  readonly cacheFolder?: string | undefined;
  readonly progress?: DownloadOptions | undefined;
}

/** The path of the set as JSON lines. Undefined if the set is not in the cache and may not be downloaded. */
export async function findPromptSet(
  name: string,
  { settings, download, cacheFolder = defaultCacheFolder(), progress = {} }: SetOptions,
): Promise<string | undefined> {
  const set = hubSets[name]!;
  const id = hubIdOf(set);
  const isWanted = (path: string): boolean => set.file.test(path);
  const path =
    download && !settings.isOffline
      ? await downloadDataFile(id, isWanted, settings, progress)
      : await findCached(id, isWanted, settings);
  return path === undefined ? undefined : convert(name, set, path, cacheFolder);
}

async function findCached(
  id: HubId,
  isWanted: (path: string) => boolean,
  { cacheFolder }: HubSettings,
): Promise<string | undefined> {
  const { refs, snapshots } = repositoryFolders(cacheFolder, id);
  const commit = await readReference(join(refs, id.revision));
  if (commit === undefined) return undefined;
  const snapshot = join(snapshots, commit);
  const names = existsSync(snapshot) ? readdirSync(snapshot, { recursive: true, encoding: 'utf8' }) : [];
  const found = names.map((name) => name.replaceAll('\\', '/')).find(isWanted);
  return found === undefined || !existsSync(join(snapshot, found)) ? undefined : join(snapshot, found);
}

/** The same bytes are not written again. */
async function convert(name: string, set: HubSet, path: string, cacheFolder: string): Promise<string> {
  const rows = await readRows(name, set, path);
  let lines: string;
  try {
    lines = rows.map((row, index) => `${JSON.stringify(set.read(row, index))}\n`).join('');
  } catch (cause) {
    throw unreadable(name, path, cause);
  }
  const folder = join(cacheFolder, 'prompt-sets');
  const target = join(folder, `${name}.jsonl`);
  if ((await readBoundedFile(target).catch(() => undefined))?.toString('utf8') === lines) return target;
  makeFolderBelow(cacheFolder, folder);
  await replaceFile(target, lines);
  return target;
}

async function readRows(name: string, { columns }: HubSet, path: string): Promise<readonly unknown[]> {
  try {
    const bytes = await readBoundedFile(path, fileLimits.promptSet);
    if (columns !== undefined) return readParquetTexts(bytes, columns);
    const lines = bytes.toString('utf8').split('\n', maxPrompts + 1);
    if (lines.length > maxPrompts) throw new Error(`it has more than ${maxPrompts} lines`);
    return lines.filter((line) => line.trim() !== '').map((line) => parseJsonText(line));
  } catch (cause) {
    throw unreadable(name, path, cause);
  }
}

function unreadable(name: string, path: string, cause: unknown): MistletoeError {
  return new MistletoeError(
    'text',
    `The prompt set ${name} in ${path} cannot be read: ${describeCause(cause)}.`,
    { hint: 'Remove the file and give --download again, or give your own copy with --prompts-dir.', cause },
  );
}
