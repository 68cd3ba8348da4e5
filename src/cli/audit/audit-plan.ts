/** `mistletoe audit --dry-run`: what would run, how long it takes, and what would be downloaded. */
import { existsSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname } from 'node:path';
import type { AuditRequest } from '../../audit/audit-request.js';
import type { Effort } from '../../audit/effort.js';
import { planAudit } from '../../audit/run-audit.js';
import { applyPreset } from '../../audit/settings.js';
import { measureDownload } from '../../checkpoint/hub/hub-download.js';
import type { HubId, HubSettings } from '../../checkpoint/hub/hub-settings.js';
import { formatHubId, parseHubId, readHubSettings } from '../../checkpoint/hub/hub-settings.js';
import { formatBytes } from '../../core/byte-size.js';
import { MistletoeError } from '../../core/errors.js';
import { countText, durationText } from '../../core/number-text.js';
import { bundledDrafters } from '../../decode/bundled-models.js';
import { countGpuBytes } from '../../decode/gpu-fit.js';
import { findWeightless } from '../../draft/systems.js';
import { deviceOf } from '../../runs/run-device.js';
import { nameDevice } from '../../runtime/device-choice.js';
import { hubIdOf, hubSets } from '../../text/prompts/hub-sets.js';
import { cacheOf } from '../common-flags.js';
import { joinLines } from '../long-runs.js';
import type { Terminal } from '../terminal.js';
import { createNotice } from '../terminal.js';
import type { AuditFlags } from './audit-flags.js';
import { givenSettings, planWorkers } from './audit-flags.js';

export async function printPlan(
  flags: AuditFlags,
  terminal: Terminal,
  readRequest: (onNotice: (message: string) => void) => Promise<AuditRequest>,
): Promise<void> {
  if (flags.resume !== undefined) {
    throw new MistletoeError('usage', '--dry-run and --resume were both given; one was expected.', {
      hint: 'Leave --dry-run out to resume the run.',
    });
  }
  const print = (data: object, text: () => string): void => {
    if (flags.format === 'json') terminal.stdout.writeData(`${JSON.stringify(data, undefined, 2)}\n`);
    else terminal.stdout.write(text());
  };
  const downloads = await planDownloads(flags, terminal);
  if (downloads !== undefined) {
    print({ downloads }, () => joinLines([...formatDownloads(downloads), describeUnits(flags)]));
    return;
  }
  const onNotice = createNotice(terminal);
  const request = await readRequest(onNotice);
  const effort = await planAudit(request, { events: { onNotice }, ...cacheOf(flags) });
  const memory = await describeMemory(request, effort);
  const workers = (await planWorkers(flags))?.count ?? 1;
  print({ ...effort, device: request.device, settings: request.settings }, () =>
    formatPlan(request, effort, memory, workers),
  );
}

function formatPlan(request: AuditRequest, effort: Effort, memory: string, workers: number): string {
  const { settings, prompts, drafters, target, suffixes } = request;
  const units = countText(prompts.length * drafters.length + effort.searches, 'unit');
  const what =
    suffixes.length > 0
      ? `measure ${countText(suffixes.length, 'given suffix')}`
      : `run ${countText(effort.searches, 'search')} of ${settings.steps} steps, which score ${effort.scoredCandidates} candidates`;
  return joinLines([
    `It would audit ${drafters.map(({ id, policy }) => `${id} (${policy})`).join(', ')} on ${target.name}, ${countText(prompts.length, 'prompt')}, preset ${request.preset}:`,
    `${what}, and decode some ${effort.decodedAnswers} answers of up to ${settings.maxNewTokens} tokens, in ${units}.`,
    `It would run on ${nameDevice(deviceOf(request))}${workers === 1 ? '' : ` with ${workers} workers`}.`,
    `Time: about ${durationText(effort.expectedMs / workers)} on this machine. Memory: about ${memory}${workers === 1 ? '' : ' for each worker'}.`,
    `Settings: ${Object.entries(settings)
      .map(([name, value]) => `${name} ${value}`)
      .join(', ')}.`,
  ]);
}

async function describeMemory(request: AuditRequest, { memoryBytes, mappedBytes }: Effort): Promise<string> {
  const mebibytes = (bytes: number): string => `${Math.ceil(bytes / 2 ** 20)} MiB`;
  const { kind, dtype } = deviceOf(request);
  if (kind === 'cuda') {
    const folders = [request.targetFolder, ...request.drafters.map(({ folder }) => folder)];
    return `${mebibytes(await countGpuBytes(folders, dtype))} of GPU memory, plus what searches need`;
  }
  if (mappedBytes === 0) return mebibytes(memoryBytes);
  return `${mebibytes(memoryBytes)}, and ${mebibytes(mappedBytes)} of weights mapped from the cache`;
}

interface PlannedDownloads {
  readonly files: readonly { readonly name: string; readonly bytes: number }[];
  /** Of models alone: at least this much memory. */
  readonly modelBytes: number;
  readonly totalBytes: number;
  readonly freeBytes: number;
  readonly cacheFolder: string;
}

/** Undefined if everything is on this machine, or --download was not given. */
async function planDownloads(flags: AuditFlags, terminal: Terminal): Promise<PlannedDownloads | undefined> {
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

function formatDownloads({
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

/** Of prompts that are not here yet, as many as --limit says. */
function describeUnits(flags: AuditFlags): string {
  const { repeats, controlSearches } = applyPreset(flags.preset, givenSettings(flags));
  const drafters = Math.max(1, flags.drafter.length);
  const perPrompt = 2 * repeats + (controlSearches ? 2 : 0);
  if (flags.limit === undefined) return `Each prompt has ${countText(drafters * perPrompt, 'search')}.`;
  const prompts = Math.max(1, flags.prompts.length) * flags.limit;
  const [searches, units] = [prompts * drafters * perPrompt, prompts * drafters * (1 + perPrompt)];
  return `${countText(prompts, 'prompt')} or fewer: ${countText(searches, 'search')} in ${countText(units, 'unit')}.`;
}
