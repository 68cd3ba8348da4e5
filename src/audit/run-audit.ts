/** An audit from its request to its result: the campaign over drafters and prompts, in a folder that can be resumed. */
import {
  describeMachine,
  deviceOf,
  findSameDevice,
  requireSameKind,
  tellToResume,
} from '../runs/run-device.js';
import { nameDevice, type RecordedDevice } from '../runtime/device-choice.js';
import { type AuditPlan, type AuditRequest, createRequest, requestSchema } from './audit-request.js';
import { readRequest, requireSameInputs } from '../runs/resumed-run.js';
import type { Effort } from './effort.js';
import { type AuditResult, type DrafterResult, type FailedUnit, resultSchema } from './result.js';
import { type AuditTimings, timingSchema } from './arms/phase-clock.js';
import { type AuditOptions, openBackend, openInProcess } from './units/executors.js';
import { transferSchema, unitSchema, universalSchema } from './units/audit-unit.js';
import { runUnits } from './units/run-units.js';
import { RunFolder } from '../runs/run-folder.js';
import { type RunPlace, refuseUsedFolder } from '../runs/run-place.js';
import { basename } from 'node:path';
import type * as z from '../core/schema.js';
import { collectTransfer, transferKey } from './arms/transfer.js';
import { armKeys, collectPrompt, unitKey } from './arms/drafter-units.js';
import type { UnitSource } from '../runs/run-units.js';
import { summariseDrafter } from './summary.js';
import { universalKey } from './arms/universal.js';

export type AuditOutcome =
  | {
      readonly status: 'complete';
      readonly result: AuditResult;
      readonly timings: AuditTimings;
      readonly folder: RunFolder;
      /** Units that failed too often in this process; the result was made without them. */
      readonly failures: readonly FailedUnit[];
    }
  | { readonly status: 'interrupted'; readonly folder: RunFolder };

/**
 * An audit in one call: what `mistletoe audit` does, without its reports.
 *
 * @example
 * const outcome = await runAudit('runs/first', { prompts: [inlinePrompt('Write a Python function that reverses a string.')], preset: 'quick' });
 */
export async function runAudit(
  place: RunPlace,
  plan: AuditPlan,
  options: AuditOptions = {},
): Promise<AuditOutcome> {
  const { cacheFolder, runtime, events } = options;
  const request = await createRequest({
    cacheFolder,
    onNotice: (message) => events?.onNotice?.(message),
    // A given runtime determines the device.
    ...(runtime === undefined ? {} : { device: runtime.name === 'cuda' ? 'cuda' : 'cpu' }),
    workers: options.workers?.count,
    ...plan,
  });
  return startAudit(place, request, options);
}

export async function startAudit(
  place: RunPlace,
  request: AuditRequest,
  options: AuditOptions = {},
): Promise<AuditOutcome> {
  if (typeof place === 'string') refuseUsedFolder(place);
  return execute(() => RunFolder.create(place, request), request, options);
}

/** Resumes with the saved request. Refuses another version or device, and changed models, before it touches the folder. */
export async function resumeAudit(path: string, options: AuditOptions = {}): Promise<AuditOutcome> {
  const request = readRequest(path, requestSchema, 'audit');
  const { version, targetFolder, target, drafters } = request;
  const models = [{ folder: targetFolder, sha256: target.sha256 }, ...drafters];
  await requireSameInputs(path, { version, models }, options.cacheFolder);
  if (options.runtime === undefined) await findSameDevice(request);
  else requireSameKind(request, options.runtime);
  const folder = RunFolder.resume(path);
  try {
    return await execute(() => folder, request, options);
  } finally {
    folder.close();
  }
}

/** What an audit would do and cost: models are loaded and timed, nothing is searched and no folder is made. */
export async function planAudit(request: AuditRequest, options: AuditOptions = {}): Promise<Effort> {
  const { effort, close } = await openInProcess(request, options);
  await close();
  return effort;
}

/** The folder is made once the models are known to load: what is refused leaves nothing behind. */
async function execute(
  openFolder: () => RunFolder,
  request: AuditRequest,
  options: AuditOptions,
): Promise<AuditOutcome> {
  const { signal } = options;
  const backend = await openBackend(request, options);
  let folder: RunFolder | undefined;
  try {
    folder = openFolder();
    const failures = await runUnits(folder, request, backend, options);
    await backend.finish?.();
    const result = rebuildResult(request, folder);
    const timings = collectTimings(folder, request, backend.label);
    return { status: 'complete', result, timings, folder, failures };
  } catch (cause) {
    if (folder !== undefined && cause === signal?.reason) return { status: 'interrupted', folder };
    throw folder === undefined ? cause : tellToResume(cause, folder.path);
  } finally {
    folder?.close();
    await backend.close();
  }
}

function collectTimings(folder: RunFolder, request: AuditRequest, label: string): AuditTimings {
  const { device, processor, cores, architecture } = describeMachine(deviceOf(request));
  const gpu = device.kind === 'cpu' ? '' : `${nameDevice(device)}; `;
  return {
    machine: `${gpu}${processor} (${architecture}), ${cores} cores${label === '' ? '' : `, ${label}`}`,
    arms: folder.readTimings(timingSchema),
    totalMs: folder.elapsedMs(),
  };
}

// The result of a run from its request and its finished units alone: what result.json must say, models or not.
export function rebuildResult(request: AuditRequest, units: UnitSource): AuditResult {
  const drafters = request.drafters.map(({ id }): DrafterResult => {
    const prompts = request.prompts.map((prompt) => collectPrompt(units, request, id, prompt));
    return { drafter: id, prompts, summary: summariseDrafter(prompts) };
  });
  const failedUnits = listFailed(request, units);
  return {
    schema: resultSchema,
    setup: describeSetup(request),
    drafters,
    transfer: request.transfer ? collectTransfer(units, request, drafters) : null,
    universal: request.drafters.flatMap(({ id }) => {
      const found = units.get(universalKey(id), universalSchema) ?? null;
      return found === null || 'failed' in found ? [] : [found];
    }),
    ...(failedUnits.length === 0 ? {} : { failedUnits }),
  };
}

/** In the order of the run. */
function listFailed({ drafters, prompts, ...request }: AuditRequest, units: UnitSource): FailedUnit[] {
  const failed: FailedUnit[] = [];
  const add = (unit: string, schema: z.ZodType<object | null>): void => {
    const data = units.get(unit, schema) ?? {};
    if ('failed' in data)
      failed.push({ unit, error: String('skipped' in data ? data.skipped : data.failed) });
  };
  for (const { id } of drafters) {
    for (const prompt of prompts)
      for (const key of armKeys(request, id, prompt.id)) add(unitKey(id, prompt.id, key), unitSchema);
    add(universalKey(id), universalSchema);
  }
  for (const { id: found } of drafters)
    for (const { id: measured } of drafters)
      for (const { id } of prompts) add(transferKey(found, measured, id), transferSchema);
  return failed;
}

const describeDevice = (device: RecordedDevice): { readonly device: string; readonly dtype: string } => ({
  device: device.kind === 'cpu' ? 'cpu' : device.name,
  dtype: device.dtype,
});

function describeSetup(request: AuditRequest): AuditResult['setup'] {
  const { version, node, target, preset, seed, settings, command, prompts } = request;
  return {
    version,
    node,
    target,
    drafters: request.drafters.map(({ name, parameterCount, sha256, id, system, policy }) => ({
      name,
      parameterCount,
      sha256,
      id,
      system,
      policy: policy.replace(/(?<=^tree:).*\.json$/s, (path) => basename(path)),
    })),
    preset,
    seed,
    options: {
      ...settings,
      suffixes: request.suffixes.length,
      threads: request.threads,
      ...(request.device === undefined ? {} : describeDevice(request.device)),
      ...(request.chatTemplate === undefined ? {} : { chatTemplate: request.chatTemplate.origin }),
      ...(request.date === undefined ? {} : { date: request.date }),
      transfer: request.transfer,
      universal: request.universal,
    },
    command,
    promptCount: prompts.length,
  };
}
