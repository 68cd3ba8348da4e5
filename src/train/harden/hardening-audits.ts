/**
 * Audits the drafters before and after hardening, on prompts, seeds and suffix lengths that training never saw.
 * `other-objective` uses an objective that training did not search with; `stronger` has ten times the steps. Each is
 * a run of `mistletoe audit`.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { AuditEvents } from '../../audit/units/audit-unit.js';
import { createRequest, type AuditRequest } from '../../audit/audit-request.js';
import type { AuditResult } from '../../audit/result.js';
import { resumeAudit, startAudit } from '../../audit/run-audit.js';
import { configFile } from '../../runs/run-units.js';
import type { AuditSettings } from '../../audit/settings.js';
import type { AuditTimings } from '../../audit/arms/phase-clock.js';
import type { WorkerPlan } from '../../runs/run-device.js';
import type { Runtime } from '../../runtime/program.js';
import type { HardenRequest } from './harden-request.js';
import type { DrafterRole } from './hardening-result.js';
import { type HardeningAudit, chooseOtherObjective } from './hardening-settings.js';

export interface AuditWork {
  readonly request: HardenRequest;
  readonly runtime: Runtime;
  readonly folder: string;
  /** The first is the drafter before hardening. */
  readonly drafters: readonly AuditedDrafter[];
  readonly cacheFolder?: string | undefined;
  readonly verifyCache?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly events?: AuditEvents | undefined;
  readonly writeAuditReports?: WriteAuditReports | undefined;
  readonly workers?: WorkerPlan | undefined;
}

export type WriteAuditReports = (
  folder: string,
  result: AuditResult,
  timings: AuditTimings,
) => Promise<unknown>;

export interface AuditedDrafter {
  readonly role: DrafterRole;
  readonly folder: string;
}

export const auditFolder = (folder: string, name: HardeningAudit): string => join(folder, 'audits', name);

export async function auditHardened(work: AuditWork, name: HardeningAudit) {
  const { runtime, folder, signal, events, cacheFolder, verifyCache, workers } = work;
  const place = auditFolder(folder, name);
  const options = { runtime, signal, events, cacheFolder, verifyCache, workers };
  const outcome = existsSync(join(place, configFile))
    ? await resumeAudit(place, options)
    : await startAudit(place, await describeAudit(work, name), options);
  if (outcome.status === 'interrupted') return undefined;
  await work.writeAuditReports?.(place, outcome.result, outcome.timings);
  return { result: outcome.result, elapsedMs: outcome.timings.totalMs };
}

export async function describeAudit(
  { request, drafters, cacheFolder }: Pick<AuditWork, 'request' | 'drafters' | 'cacheFolder'>,
  name: HardeningAudit,
): Promise<AuditRequest> {
  const { audit, targetFolder, threads, device } = request;
  const isStronger = name === 'stronger';
  const prompts = isStronger ? audit.prompts.slice(0, audit.strongerPrompts) : audit.prompts;
  const planned = await createRequest({
    target: targetFolder,
    drafters: drafters.map(({ folder }) => folder),
    threads,
    cacheFolder,
    seed: audit.seed,
    date: request.date,
    taps: request.from.taps,
    prompts,
    preset: audit.preset,
    settings: auditSettings(request, name),
    device: device.kind === 'cpu' ? 'cpu' : `cuda:${device.ordinal}`,
    ...(device.kind === 'cuda' ? { dtype: device.dtype } : {}),
    command: `mistletoe harden (its audit "${name}")`,
  });
  // The folders have the same names, so reports use the roles.
  const named = planned.drafters.map((drafter, index) => {
    const id = [request.from.name, ...(index === 0 ? [] : [drafters[index]!.role])].join('-');
    return { ...drafter, id, name: id };
  });
  const { chatTemplate, date } = request;
  return { ...planned, drafters: named, ...(chatTemplate === undefined ? {} : { chatTemplate, date }) };
}

const strongerBy = 10;

export function auditSettings(
  { audit: { settings }, hardening }: Pick<HardenRequest, 'audit' | 'hardening'>,
  name: HardeningAudit,
): AuditSettings {
  switch (name) {
    case 'fresh':
      return settings;
    case 'other-objective':
      return { ...settings, objective: chooseOtherObjective(settings, hardening) };
    case 'stronger':
      return { ...settings, steps: strongerBy * settings.steps };
  }
}
