/** Finds the folder of a model or a drafter: a path, a bundled drafter, or a name on the Hugging Face hub. */
import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import {
  findCachedModel,
  formatHubId,
  hubIdForm,
  parseHubId,
  readHubSettings,
} from '../checkpoint/hub/hub-settings.js';
import { type DownloadOptions, downloadModel } from '../checkpoint/hub/hub-download.js';
import { formatBytes } from '../core/number-text.js';
import { MistletoeError } from '../core/errors.js';
import { mapFolder } from '../draft/systems.js';
import { findPromptSet, hubSets } from '../text/prompts/hub-sets.js';
import type { DownloadFlags } from './common-flags.js';
import type { Progress, ProgressClock, ProgressMode } from './progress.js';
import { createProgress, roughDuration } from './progress.js';
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
    const progress = createProgress(flags.progress ?? 'auto', terminal.stderr);
    const display = createDownloadProgress(progress, formatHubId(id), { now: () => performance.now() });
    try {
      const folder = await downloadModel(id, settings, display);
      display.end(`${formatHubId(id)} is in ${folder}`);
      return folder;
    } catch (failure) {
      display.end();
      throw failure;
    }
  };
  return (given) => mapFolder(given, find);
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

/** Progress events per download, for programs that read them. */
const maxEvents = 1000;

interface DownloadDisplay {
  readonly onStart: NonNullable<DownloadOptions['onStart']>;
  readonly onProgress: NonNullable<DownloadOptions['onProgress']>;
  /** Prints nothing if nothing had to be downloaded. */
  readonly end: (summary?: string) => void;
}

/** Shows size, time left, speed and file. */
export function createDownloadProgress(
  progress: Progress,
  name: string,
  { now }: ProgressClock,
): DownloadDisplay {
  let hasStarted = false;
  let totalBytes = 0;
  let reportedBytes = 0;
  let reportedFile: string | undefined;
  /** Where this attempt started; bytes of an earlier attempt do not count towards the speed. */
  let first: { readonly bytes: number; readonly time: number } | undefined;
  const measureSpeed = (doneBytes: number): number | undefined => {
    if (first === undefined || doneBytes <= first.bytes) return undefined;
    const milliseconds = now() - first.time;
    return milliseconds > 0 ? (doneBytes - first.bytes) / milliseconds : undefined;
  };
  return {
    onStart(bytes) {
      hasStarted = true;
      totalBytes = bytes;
      progress.start(bytes, `download ${name}`, formatBytes);
    },
    onProgress({ file, doneBytes }) {
      first ??= { bytes: doneBytes, time: now() };
      const isDue =
        file !== reportedFile ||
        doneBytes - reportedBytes >= totalBytes / maxEvents ||
        doneBytes === totalBytes;
      if (!isDue) return;
      reportedBytes = doneBytes;
      reportedFile = file;
      const bytesPerMs = measureSpeed(doneBytes);
      progress.update(doneBytes, { file }, () => [
        ...(bytesPerMs === undefined
          ? []
          : [
              `left ${roughDuration((totalBytes - doneBytes) / bytesPerMs)}`,
              `${formatBytes(Math.round(1000 * bytesPerMs))}/s`,
            ]),
        file,
      ]);
    },
    end(summary) {
      if (hasStarted) progress.finish(summary);
    },
  };
}

interface SetFlags extends DownloadFlags {
  readonly promptsDir?: string | undefined;
  readonly cacheDir?: string | undefined;
  readonly progress?: ProgressMode | undefined;
}

export type PromptFinder = (source: string) => Promise<string>;

/** From what was given to a file, or to the same name where a folder has the set. */
export function createPromptFinder(flags: SetFlags, terminal: Terminal): PromptFinder {
  return async (source) => {
    const set = Object.hasOwn(hubSets, source) ? hubSets[source] : undefined;
    if (set === undefined || flags.promptsDir !== undefined) return source;
    const settings = readHubSettings({ environment: terminal.environment, home: homedir() });
    const progress = createProgress(flags.progress ?? 'auto', terminal.stderr);
    const display = createDownloadProgress(progress, set.repository, { now: () => performance.now() });
    try {
      const path = await findPromptSet(source, {
        settings,
        download: flags.download === true,
        cacheFolder: flags.cacheDir,
        progress: display,
      });
      display.end(`${set.repository} is in the cache`);
      if (path !== undefined) return path;
    } catch (failure) {
      display.end();
      throw failure;
    }
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
