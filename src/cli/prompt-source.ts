/** Prompt sets by name: from --prompts-dir, from the cache of the Hugging Face hub, or from the hub with --download. */
import { homedir } from 'node:os';
import { readHubSettings } from '../checkpoint/hub/hub-settings.js';
import { MistletoeError } from '../core/errors.js';
import { findPromptSet, hubSets } from '../text/prompts/hub-sets.js';
import type { DownloadFlags } from './common-flags.js';
import { createDownloadProgress } from './model-source.js';
import type { ProgressMode } from './progress.js';
import { createProgress } from './progress.js';
import type { Terminal } from './terminal.js';

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
