/** Finds the folder of a model or a drafter: a path, a bundled drafter, or a name on the Hugging Face hub. */
import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { basename, extname, resolve } from 'node:path';
import {
  findCachedModel,
  formatHubId,
  hubIdForm,
  parseHubId,
  readHubSettings,
} from '../checkpoint/hub/hub-settings.js';
import { downloadModel } from '../checkpoint/hub/hub-download.js';
import { shortenPath } from '../core/files.js';
import { formatBytes } from '../core/number-text.js';
import { MistletoeError } from '../core/errors.js';
import { bundledPrompts } from '../core/package-files.js';
import { mapFolders } from '../draft/systems.js';
import type { PromptSet } from '../measure/benchmark.js';
import { findPromptSet, hubSets } from '../text/prompts/hub-sets.js';
import { type Prompt, loadPrompts, promptSetFiles } from '../text/prompts/prompt-set.js';
import type { DownloadFlags } from './common-flags.js';
import { createProgress, type Progress, type ProgressMode } from './progress.js';
import type { Terminal } from './terminal.js';

export type ModelFinder = (given: string) => Promise<string>;

interface SourceFlags extends DownloadFlags {
  readonly progress?: ProgressMode | undefined;
}

/** An existing path wins over a hub name, as in transformers. Without --download, no network is used. */
export function createModelFinder(flags: SourceFlags, terminal: Terminal): ModelFinder {
  const find: ModelFinder = async (given) => {
    if (existsSync(given)) return given;
    const id = parseHubId(given);
    if (id === undefined) {
      if (flags.download === true) throw refuseToFetch(given);
      return given; // opening it reports what is wrong
    }
    const settings = readHubSettings({ environment: terminal.environment, home: homedir() });
    if (flags.download !== true || settings.isOffline) return findCachedModel(id, settings);
    return showDownload(flags, terminal, formatHubId(id), (display) => downloadModel(id, settings, display));
  };
  return (given) => mapFolders(given, find);
}

function refuseToFetch(given: string): MistletoeError {
  return new MistletoeError(
    'usage',
    `${given} is neither a folder nor a name on the Hugging Face hub; ${hubIdForm} was expected.`,
    {
      hint: 'Names have letters, digits, dots, dashes and underscores. Without --download, only folders are used.',
    },
  );
}

/** Follows a download, and says where its result is. */
async function showDownload<Path extends string | undefined>(
  { progress = 'auto' }: SourceFlags,
  { stderr }: Terminal,
  name: string,
  download: (display: DownloadDisplay) => Promise<Path>,
): Promise<Path> {
  const display = createDownloadProgress(createProgress(progress, stderr), name);
  try {
    const path = await download(display);
    display.end(`${name} is in ${path ?? 'the cache'}`);
    return path;
  } catch (failure) {
    display.end();
    throw failure;
  }
}

/** Progress events per download, for programs that read them. */
const maxEvents = 1000;

type DownloadDisplay = ReturnType<typeof createDownloadProgress>;

/** Shows size, time left and file. */
export function createDownloadProgress(progress: Progress, name: string) {
  let totalBytes: number | undefined;
  let reportedBytes = 0;
  let reportedFile: string | undefined;
  return {
    onStart(bytes: number): void {
      totalBytes = bytes;
      progress.start(bytes, `download ${name}`, formatBytes);
    },
    onProgress({ file, doneBytes }: { readonly file: string; readonly doneBytes: number }): void {
      const isDue =
        file !== reportedFile ||
        doneBytes - reportedBytes >= totalBytes! / maxEvents ||
        doneBytes === totalBytes;
      if (!isDue) return;
      reportedBytes = doneBytes;
      reportedFile = file;
      progress.update(doneBytes, { file });
    },
    /** Prints nothing if nothing had to be downloaded. */
    end(summary?: string): void {
      if (totalBytes !== undefined) progress.finish(summary);
    },
  };
}

interface SetFlags extends SourceFlags {
  readonly promptsDir?: string | undefined;
  readonly cacheFolder?: string | undefined;
}

/** From what was given to a file, or to the same name where a folder has the set. */
export function createPromptFinder(flags: SetFlags, terminal: Terminal) {
  return async (source: string): Promise<string> => {
    const set = Object.hasOwn(hubSets, source) ? hubSets[source] : undefined;
    if (set === undefined || flags.promptsDir !== undefined) return source;
    const settings = readHubSettings({ environment: terminal.environment, home: homedir() });
    const { download = false, cacheFolder } = flags;
    const path = await showDownload(flags, terminal, set.repository, (progress) =>
      findPromptSet(source, { settings, download, cacheFolder, progress }),
    );
    if (path !== undefined) return path;
    const host = new URL(settings.endpoint).host;
    throw new MistletoeError(
      'usage',
      `The prompt set ${source} is not in the Hugging Face cache in ${settings.cacheFolder}.`,
      {
        hint: `--download fetches it from ${host} (${set.repository}); --prompts-dir names a folder that has it.`,
      },
    );
  };
}

/** The sets of --prompts, by unique names; the bundled set if none is given. */
export async function readPromptSets(
  flags: SetFlags & { readonly prompts: readonly string[] },
  terminal: Terminal,
): Promise<readonly PromptSet[]> {
  const findSet = createPromptFinder(flags, terminal);
  const sets: PromptSet[] = [];
  for (const [name, source] of namePromptSets(flags.prompts)) {
    const prompts = await loadPrompts(await findSet(source), { folder: flags.promptsDir });
    sets.push({ name, prompts });
  }
  return sets;
}

/** Sets number their prompts alike, so ids of several sets start with the name of the set, which can be a path. */
export const joinPromptSets = (sets: readonly PromptSet[], limit: number | undefined): readonly Prompt[] =>
  sets.flatMap(({ name, prompts }) => {
    const prefix = sets.length === 1 ? '' : `${shortenPath(name)}-`;
    return prompts.slice(0, limit).map((prompt) => ({ ...prompt, id: `${prefix}${prompt.id}` }));
  });

export function namePromptSets(given: readonly string[]): Map<string, string> {
  given.forEach(checkPromptSource);
  const sources = given.length === 0 ? [bundledPrompts] : given;
  return nameUniquely('--prompts', sources, (path) => basename(resolve(path), extname(path)));
}

function checkPromptSource(source: string): void {
  if (Object.hasOwn(promptSetFiles, source) || /\.(jsonl|txt)$/.test(source)) return;
  throw new MistletoeError(
    'usage',
    `--prompts is ${source}; a .jsonl or .txt file, or one of ${Object.keys(promptSetFiles).join(', ')} was expected.`,
    {
      hint: 'Known sets come from --prompts-dir or with --download; --prompt takes a single prompt as text.',
    },
  );
}

/** A short name for each, or the whole value if the short name is not unique. */
export function nameUniquely(
  option: string,
  given: readonly string[],
  shortName: (value: string) => string,
): Map<string, string> {
  const named = new Map<string, string>();
  const seen = new Set<string>();
  for (const value of given) {
    if (seen.has(resolve(value))) {
      throw new MistletoeError('usage', `${option} ${value} was given twice.`, {
        hint: 'Give each one once.',
      });
    }
    seen.add(resolve(value));
    const isUnique = given.filter((other) => shortName(other) === shortName(value)).length === 1;
    named.set(isUnique ? shortName(value) : value, value);
  }
  return named;
}
