/** `mistletoe audit --dry-run`: what would run, how long it takes, and how much memory it needs. */
import type { AuditRequest } from '../../audit/audit-request.js';
import type { Effort } from '../../audit/effort.js';
import { planAudit } from '../../audit/run-audit.js';
import { MistletoeError } from '../../core/errors.js';
import { countText, durationText } from '../../core/number-text.js';
import { countGpuBytes } from '../../decode/gpu-fit.js';
import { deviceOf } from '../../runs/run-device.js';
import { nameDevice } from '../../runtime/device-choice.js';
import { cacheOf } from '../common-flags.js';
import { joinLines } from '../long-runs.js';
import type { Terminal } from '../terminal.js';
import { createNotice } from '../terminal.js';
import type { AuditFlags } from './audit-flags.js';
import { describeUnits, planWorkers } from './audit-workers.js';
import { formatDownloads, planDownloads, predictTime } from './planned-downloads.js';

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
