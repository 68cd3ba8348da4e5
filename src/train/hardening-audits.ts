/**
 * Whether hardening held: audits of the drafters before and after it, on prompts, seeds and suffix lengths that training
 * never saw. `fresh` is the audit that anybody would run; `other-objective` drives what no search of the training drove;
 * `stronger` has ten times the steps. Each is a run of `mistletoe audit` in a folder of its own, with its own reports.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { AuditEvents } from '../audit/audit-events.js';
import { createRequest } from '../audit/create-request.js';
import type { AuditResult } from '../audit/result.js';
import { resumeAudit, startAudit } from '../audit/run-audit.js';
import { configFile } from '../audit/run-units.js';
import type { AuditSettings } from '../audit/settings.js';
import { objectiveNames } from '../audit/objectives.js';
import { judge } from '../report/verdict.js';
import { writeReports } from '../report/write-reports.js';
import type { Runtime } from '../runtime/program.js';
import type { Prompt } from '../text/prompt-set.js';
import type { HardeningAudit, HardenRequest } from './harden-request.js';

export interface AuditWork {
  readonly request: HardenRequest;
  readonly runtime: Runtime;
  /** Of the hardening run; audits lie in `audits/NAME`. */
  readonly folder: string;
  /** [drafter's folder] the first is the one before hardening. */
  readonly drafters: readonly string[];
  readonly cacheFolder?: string | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly events?: AuditEvents | undefined;
}

/** Undefined where it was interrupted. */
export async function auditHardened(work: AuditWork, name: HardeningAudit): Promise<AuditResult | undefined> {
  const { runtime, folder, signal, events, cacheFolder } = work;
  const place = join(folder, 'audits', name);
  const options = {
    runtime,
    ...(signal === undefined ? {} : { signal }),
    ...(events === undefined ? {} : { events }),
    ...(cacheFolder === undefined ? {} : { cacheFolder }),
  };
  const outcome = existsSync(join(place, configFile))
    ? await resumeAudit(place, options)
    : await startAudit(place, await describeAudit(work, name), options);
  if (outcome.status === 'interrupted') return undefined;
  await writeReports(place, outcome.result, outcome.timings, judge(outcome.result));
  return outcome.result;
}

function describeAudit({ request, drafters, cacheFolder }: AuditWork, name: HardeningAudit) {
  const { audit, targetFolder, threads, device } = request;
  const isStronger = name === 'stronger';
  const prompts = isStronger ? audit.prompts.slice(0, audit.strongerPrompts) : audit.prompts;
  return createRequest({
    ...{ target: targetFolder, drafters, threads, cacheFolder, seed: audit.seed },
    prompts: prompts as readonly Prompt[],
    settings: auditSettings(request, name),
    device: device.kind === 'cpu' ? 'cpu' : `cuda:${device.ordinal}`,
    ...(device.kind === 'cuda' ? { dtype: device.dtype } : {}),
    command: `mistletoe harden (its audit "${name}")`,
  });
}

const strongerBy = 10;

export function auditSettings(
  { audit: { settings }, hardening }: Pick<HardenRequest, 'audit' | 'hardening'>,
  name: HardeningAudit,
): AuditSettings {
  if (name === 'stronger') return { ...settings, steps: strongerBy * settings.steps };
  if (name === 'fresh') return settings;
  const unseen = objectiveNames.filter((objective) => !hardening.objectives.includes(objective));
  return { ...settings, objective: unseen[0] ?? settings.objective };
}
