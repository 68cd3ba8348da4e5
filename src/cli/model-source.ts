/** From what a user writes for a model or a drafter to its folder: a path, or a name on the Hugging Face hub. */
import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { findCachedModel } from '../checkpoint/hub/hub-cache.js';
import { downloadModel } from '../checkpoint/hub/hub-download.js';
import { formatHubId, hubIdForm, parseHubId, readHubSettings } from '../checkpoint/hub/hub-settings.js';
import { MistletoeError } from '../core/errors.js';
import { findWeightless } from '../draft/systems.js';
import type { DownloadFlags } from './common-options.js';
import { createDownloadProgress } from './download-progress.js';
import type { ProgressMode } from './progress.js';
import { createProgress } from './progress.js';
import type { Terminal } from './terminal.js';

export type ModelFinder = (given: string) => Promise<string>;

interface SourceFlags extends DownloadFlags {
  readonly progress?: ProgressMode;
}

/** What exists here wins over a name, as in transformers. Nothing is asked of a network without --download. */
export function createModelFinder(flags: SourceFlags, terminal: Terminal): ModelFinder {
  return async (given) => {
    if (existsSync(given) || findWeightless(given) !== undefined) return given;
    const id = parseHubId(given);
    if (id === undefined) {
      if (flags.download === true) throw refuseToFetch(given);
      return given; // whoever opens it says what is wrong
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
}

function refuseToFetch(given: string): MistletoeError {
  return new MistletoeError(
    'usage',
    `${given} is neither a folder nor a name on the Hugging Face hub; ${hubIdForm} was expected.`,
    {
      hint: 'Names have letters, digits, dots, dashes and underscores. Without --download only folders are looked for.',
    },
  );
}
