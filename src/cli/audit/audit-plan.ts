/** `mistletoe audit --dry-run`: what would run, how long it takes, and how much memory it needs. */
import { existsSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname } from 'node:path';
import type { AuditRequest } from '../../audit/audit-request.js';
import { type Effort, predictEffort } from '../../audit/effort.js';
import { planAudit } from '../../audit/run-audit.js';
import { applyPreset } from '../../audit/settings.js';
import { countWorkers } from '../../audit/units/executors.js';
import { measureDownload } from '../../checkpoint/hub/hub-download.js';
import {
  formatHubId,
  type HubId,
  type HubSettings,
  parseHubId,
  readHubSettings,
} from '../../checkpoint/hub/hub-settings.js';
import { openCheckpoint } from '../../checkpoint/open-checkpoint.js';
import { MistletoeError } from '../../core/errors.js';
import { countText, durationText, formatBytes } from '../../core/number-text.js';
import { bundledDrafters } from '../../core/package-files.js';
import { findDrafter } from '../../decode/find-drafter.js';
import { countGpuBytes } from '../../decode/gpu-fit.js';
import { splitSource } from '../../draft/joined/sources.js';
import { findWeightless } from '../../draft/systems.js';
import { deviceOf } from '../../runs/run-device.js';
import { openRuntime } from '../../runtime/create-runtime.js';
import { chooseDevice, nameDevice, recordDevice } from '../../runtime/device-choice.js';
import { hubIdOf, hubSets } from '../../text/prompts/hub-sets.js';
import { cacheOf } from '../common-flags.js';
import { joinLines, printResult } from '../long-runs.js';
import { createModelFinder } from '../model-source.js';
import { createNotice, type Terminal } from '../terminal.js';
import { type AuditFlags, describeUnits, givenSettings, mainDevice, planWorkers } from './audit-flags.js';

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
    printResult(flags.format === 'json' ? 'json' : 'text', terminal, { json: () => data, text });
  };
  const downloads = await planDownloads(flags, terminal);
  if (downloads !== undefined) {
    const effort = await predictTime(flags, downloads);
    print({ downloads, effort }, () =>
      joinLines([...formatDownloads(downloads, effort), describeUnits(flags)]),
    );
    return;
  }
  const onNotice = createNotice(terminal);
  const request = await readRequest(onNotice);
  const effort = await planAudit(request, { events: { onNotice }, ...cacheOf(flags) });
  const memory = await describeMemory(request, effort);
  const workers = (await planWorkers(flags))?.count ?? (await countWorkers(request));
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

// What an audit would download, for --dry-run: nothing is fetched but lists of files.
type PlannedDownloads = NonNullable<Awaited<ReturnType<typeof planDownloads>>>;

/** Undefined if everything is on this machine, or --download was not given. */
async function planDownloads(flags: AuditFlags, terminal: Terminal) {
  const settings = readHubSettings({ environment: terminal.environment, home: homedir() });
  if (flags.download !== true || settings.isOffline) return undefined;
  const files: { name: string; bytes: number }[] = [];
  const parameters: number[] = []; // as far as the sizes of files say
  for (const given of [flags.target, ...flags.drafter]) {
    let count = 0;
    for (const part of splitSource(given)) {
      const id = hubModel(part);
      const bytes = id === undefined ? 0 : await measureDownload(id, settings);
      if (id !== undefined) files.push({ name: formatHubId(id), bytes });
      count += bytes > 0 ? bytes / halfBytes : await countStored(part, flags, terminal);
    }
    parameters.push(count);
  }
  const [target = 0, ...drafters] = parameters;
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
  const freeBytes = await measureFree(settings);
  return { files: missing, target, drafters, modelBytes, totalBytes, freeBytes, cacheFolder };
}

/** Of a parameter in a published checkpoint. */
const halfBytes = 2;

/** Parameters of a model that is on this machine. */
async function countStored(given: string, flags: AuditFlags, terminal: Terminal): Promise<number> {
  const find = createModelFinder({ ...flags, download: undefined }, terminal);
  try {
    const folder = await find(findDrafter(given));
    const { tensors } = await openCheckpoint(folder);
    const counts = [...tensors.values()].map(({ shape }) =>
      shape.reduce((product, size) => product * size, 1),
    );
    return counts.reduce((total, count) => total + count, 0);
  } catch {
    return 0; // a system without weights, or one that the audit refuses when it opens it
  }
}

/** Before anything is downloaded. */
async function predictTime(flags: AuditFlags, { target, drafters }: PlannedDownloads) {
  const choice = await chooseDevice({ device: await mainDevice(flags), dtype: flags.dtype });
  const runtime = await openRuntime(choice, flags.threads);
  try {
    const settings = applyPreset(flags.preset, givenSettings(flags));
    const prompts = flags.prompt === undefined ? Math.max(1, flags.prompts.length) * (flags.limit ?? 1) : 1;
    const effort = await predictEffort(runtime, { settings, prompts, target, drafters });
    const workers = (await planWorkers(flags))?.count ?? 1;
    return { ...effort, prompts, workers, device: nameDevice(recordDevice(choice)) };
  } finally {
    await runtime.dispose();
  }
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

function formatDownloads(
  { files, modelBytes, totalBytes, freeBytes, cacheFolder }: PlannedDownloads,
  { expectedMs, prompts, workers, device }: Awaited<ReturnType<typeof predictTime>>,
): string[] {
  const place = `${device}${workers === 1 ? '' : ` with ${workers} workers`}`;
  return [
    `It would download ${formatBytes(totalBytes)} into ${cacheFolder}, where ${formatBytes(freeBytes)} are free:`,
    ...files.map(({ name, bytes }) => `  ${name}  ${formatBytes(bytes)}`),
    `The models need about ${formatBytes(modelBytes)} of memory in 16 bits, plus what searches need.`,
    `Time: some ${durationText(expectedMs / workers)} for ${countText(prompts, 'prompt')} on ${place}, from the sizes of the models and the speed of matrix products here. --dry-run measures it once the models are downloaded.`,
  ];
}
