/** An audit from its request to its result: the campaign over drafters and prompts, in a folder that can be resumed. */
import type { CacheOptions } from '../checkpoint/cache/weight-cache.js';
import { always } from '../decode/policies/policy-chooser.js';
import { levelsOf } from '../draft/tree/grow-tree.js';
import { describeMachine } from '../measure/machine.js';
import { openRuntime } from '../runtime/create-runtime.js';
import { nameDevice } from '../runtime/device-choice.js';
import type { Runtime } from '../runtime/program.js';
import type { Prompt } from '../text/prompts/prompt-set.js';
import { listAllowedTokens } from './arms/controls.js';
import type { AuditEvents, UnitName } from './audit-events.js';
import type { Models } from './audit-models.js';
import { openModels } from './audit-models.js';
import { preparePrompt } from './arms/audit-prompt.js';
import type { AuditRequest } from './audit-request.js';
import { requestSchema } from './audit-request.js';
import type { AuditPlan } from './create-request.js';
import { createRequest } from './create-request.js';
import { readRequest, requireSameInputs } from '../runs/resumed-run.js';
import type { AuditTimings } from './arms/phase-clock.js';
import { measureTransfer, transferUnits } from './arms/transfer.js';
import type { DrafterAudit } from './arms/drafter-audit.js';
import { auditDrafter } from './arms/drafter-audit.js';
import { unitsOf } from './arms/drafter-units.js';
import type { Effort } from './effort.js';
import { estimateEffort } from './effort.js';
import { Interrupted } from './arms/prompt-audit.js';
import type { AuditResult, DrafterResult, UniversalResult } from './result.js';
import { resultSchema } from './result.js';
import { timingSchema } from './arms/phase-clock.js';
import { describeSetup } from './rebuild-result.js';
import { PassRows } from './search/pass-rows.js';
import { deviceOf, findSameDevice, requireSameKind, tellToResume } from '../runs/run-device.js';
import { RunFolder } from '../runs/run-folder.js';
import type { RunPlace } from '../runs/run-place.js';
import { refuseUsedFolder } from '../runs/run-place.js';
import { summariseDrafter } from './summary.js';
import { searchUniversal } from './arms/universal.js';

export interface AuditOptions {
  readonly events?: AuditEvents | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly cacheFolder?: string | undefined;
  /** Read all of the converted weights before they are used. */
  readonly verifyCache?: boolean | undefined;
  /** Used and left open; by default one for this audit alone, with the device and the threads of the request. */
  readonly runtime?: Runtime | undefined;
}

export type AuditOutcome =
  | {
      readonly status: 'complete';
      readonly result: AuditResult;
      readonly timings: AuditTimings;
      readonly folder: RunFolder;
    }
  | { readonly status: 'interrupted'; readonly folder: RunFolder };

/**
 * An audit in one call: what `mistletoe audit` does, without its reports.
 *
 * @example
 * const outcome = await runAudit('runs/first', { prompts: [inlinePrompt('Why is the sky blue?')], preset: 'quick' });
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
  const runtime = await findRuntime(request, options);
  try {
    const { target, drafters } = await openModels(request, runtime, cacheOf(options));
    return await estimateEffort(request, target, drafters);
  } finally {
    if (options.runtime === undefined) await runtime.dispose();
  }
}

async function findRuntime(request: AuditRequest, { runtime }: AuditOptions): Promise<Runtime> {
  if (runtime === undefined) return openRuntime(await findSameDevice(request), request.threads);
  requireSameKind(request, runtime);
  return runtime;
}

function cacheOf({ cacheFolder, verifyCache, events }: AuditOptions): CacheOptions {
  return {
    ...(cacheFolder === undefined ? {} : { cacheFolder }),
    ...(verifyCache === undefined ? {} : { verifyCache }),
    onNotice: (message) => events?.onNotice?.(message),
  };
}

/** The folder is made once the models are known to load: what is refused leaves nothing behind. */
async function execute(
  openFolder: () => RunFolder,
  request: AuditRequest,
  options: AuditOptions,
): Promise<AuditOutcome> {
  const runtime = await findRuntime(request, options);
  let folder: RunFolder | undefined;
  try {
    const models = await openModels(request, runtime, cacheOf(options));
    folder = openFolder();
    const result = await runUnits(folder, request, models, options);
    const timings = collectTimings(folder, request);
    for (const notice of folder.notices) options.events?.onNotice?.(notice);
    return { status: 'complete', result, timings, folder };
  } catch (cause) {
    const isInterruption = cause instanceof Interrupted || cause === options.signal?.reason;
    if (folder !== undefined && isInterruption) return { status: 'interrupted', folder };
    throw folder === undefined ? cause : tellToResume(cause, folder.path);
  } finally {
    folder?.close();
    if (options.runtime === undefined) await runtime.dispose();
  }
}

async function runUnits(
  folder: RunFolder,
  request: AuditRequest,
  { target, drafters }: Models,
  options: AuditOptions,
): Promise<AuditResult> {
  const { events = {}, signal } = options;
  const { expectedMs } = await estimateEffort(request, target, drafters);
  const units = listUnits(request);
  events.onPlan?.({
    target: request.target.name,
    drafters: request.drafters.map(({ id, policy }) => `${id} (${policy})`),
    preset: request.preset,
    folder: folder.path,
    units: units.length,
    expectedMs,
  });
  events.onStart?.(units);
  const count = { done: 0, total: units.length };
  const runUnit = async (unit: UnitName, work: () => Promise<number | undefined>): Promise<void> => {
    signal?.throwIfAborted();
    events.onUnitStart?.(unit, count.done, count.total);
    const acceptedLength = await work();
    events.onUnitEnd?.(unit, acceptedLength);
    count.done += 1;
  };
  const { vocabularySize } = target.model.configuration;
  const allowed = listAllowedTokens(target.tokenizer, vocabularySize, request.settings);
  const passRows = new PassRows(target.model.runtime, (message) => events.onNotice?.(message));
  const results: DrafterResult[] = [];
  const universal: UniversalResult[] = [];
  for (const { id, drafter, policy } of drafters) {
    const shared = { request, folder, target, id, drafter, allowed, events, signal, count, passRows };
    const audit: DrafterAudit = { ...shared, policy: always(policy), draftLevels: levelsOf(policy) };
    const prompts = await auditDrafter(audit);
    results.push({ drafter: id, prompts, summary: summariseDrafter(prompts, request.seed) });
    if (!request.universal) continue;
    await runUnit(universalUnit(id), async () => {
      const found = await searchUniversal(audit, policy);
      if (found !== undefined) universal.push(found);
      return found?.trained.attackedAcceptedLength;
    });
  }
  const transfer = request.transfer
    ? await measureTransfer({
        folder,
        target,
        request,
        drafters,
        results,
        prepare: (promptId) => {
          const prompt = request.prompts.find(({ id }) => id === promptId)!;
          return preparePrompt(target, prompt as Prompt, { ...request.settings, seed: request.seed });
        },
        onUnit: runUnit,
      })
    : null;
  return { schema: resultSchema, setup: describeSetup(request), drafters: results, transfer, universal };
}

const universalUnit = (drafter: string): UnitName => ({ drafter, prompt: 'all', arm: 'universal' });

function listUnits(request: AuditRequest): UnitName[] {
  return [
    ...request.drafters.flatMap(({ id }) => [
      ...unitsOf(request, id),
      ...(request.universal ? [universalUnit(id)] : []),
    ]),
    ...(request.transfer ? transferUnits(request) : []),
  ];
}

function collectTimings(folder: RunFolder, request: AuditRequest): AuditTimings {
  const { device, processor, cores, architecture } = describeMachine(deviceOf(request));
  const gpu = device.kind === 'cpu' ? '' : `${nameDevice(device)}; `;
  return {
    machine: `${gpu}${processor} (${architecture}), ${cores} cores`,
    arms: folder.readTimings(timingSchema),
    totalMs: folder.elapsedMs(),
  };
}
