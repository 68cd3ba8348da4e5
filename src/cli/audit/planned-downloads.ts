/** What an audit would download, for --dry-run: nothing is fetched but lists of files. */
import { existsSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname } from 'node:path';
import { measureDownload } from '../../checkpoint/hub/hub-download.js';
import type { HubId, HubSettings } from '../../checkpoint/hub/hub-settings.js';
import { formatHubId, parseHubId, readHubSettings } from '../../checkpoint/hub/hub-settings.js';
import { formatBytes } from '../../core/byte-size.js';
import { bundledDrafters } from '../../decode/bundled-models.js';
import { findWeightless } from '../../draft/systems.js';
import { hubIdOf, hubSets } from '../../text/prompts/hub-sets.js';
import type { Terminal } from '../terminal.js';
import type { AuditFlags } from './audit-flags.js';

export interface PlannedDownloads {
  readonly files: readonly { readonly name: string; readonly bytes: number }[];
  /** Of models alone: at least this much memory. */
  readonly modelBytes: number;
  readonly totalBytes: number;
  readonly freeBytes: number;
  readonly cacheFolder: string;
}

/** Undefined if everything is on this machine, or --download was not given. */
export async function planDownloads(
  flags: AuditFlags,
  terminal: Terminal,
): Promise<PlannedDownloads | undefined> {
  const settings = readHubSettings({ environment: terminal.environment, home: homedir() });
  if (flags.download !== true || settings.isOffline) return undefined;
  const models = [flags.target, ...flags.drafter].flatMap((given) => hubModel(given) ?? []);
  const files: { name: string; bytes: number }[] = [];
  for (const id of models) files.push({ name: formatHubId(id), bytes: await measureDownload(id, settings) });
  const modelBytes = files.reduce((sum, { bytes }) => sum + bytes, 0);
  const sets = flags.promptsDir === undefined ? flags.prompts : [];
  for (const set of sets.flatMap((name) => (Object.hasOwn(hubSets, name) ? (hubSets[name] ?? []) : []))) {
    const bytes = await measureDownload(hubIdOf(set), settings, (path) => set.file.test(path));
    files.push({ name: set.repository, bytes });
  }
  const missing = files.filter(({ bytes }) => bytes > 0);
  if (missing.length === 0) return undefined;
  const totalBytes = missing.reduce((sum, { bytes }) => sum + bytes, 0);
  const { cacheFolder } = settings;
  return { files: missing, modelBytes, totalBytes, freeBytes: await measureFree(settings), cacheFolder };
}

function hubModel(given: string): HubId | undefined {
  const isLocal =
    existsSync(given) ||
    findWeightless(given) !== undefined ||
    bundledDrafters.some((name) => name === given);
  return isLocal ? undefined : parseHubId(given);
}

async function measureFree({ cacheFolder }: HubSettings): Promise<number> {
  let folder = cacheFolder;
  while (!existsSync(folder) && dirname(folder) !== folder) folder = dirname(folder);
  const { blocks, bavail, bsize } = await statfs(folder);
  return blocks === 0 ? Infinity : bavail * bsize;
}

export function formatDownloads({
  files,
  modelBytes,
  totalBytes,
  freeBytes,
  cacheFolder,
}: PlannedDownloads): string[] {
  return [
    `It would download ${formatBytes(totalBytes)} into ${cacheFolder}, where ${formatBytes(freeBytes)} are free:`,
    ...files.map(({ name, bytes }) => `  ${name}  ${formatBytes(bytes)}`),
    `The models need about ${formatBytes(modelBytes)} of memory in 16 bits, plus what searches need.`,
    'The time is known once the models are here: give --dry-run again after the download.',
  ];
}
